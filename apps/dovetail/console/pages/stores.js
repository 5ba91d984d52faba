// Consumers, databases and brokers, the audit, and signing in.
'use strict';
(() => {
  const { h, num, short, rate, dur, bytes, clock, stamp, age, many, state, pill, button, mono, facts, table, toast } = D;

  // ---- consumers
  D.views.consumers = async () => ({
    title: () => 'Consumers',
    render: () => h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Consumers'), h('p', {}, 'A consumer hands each event to its handlers. The inbox remembers what was applied, so a second delivery changes nothing.')),
      D.daemon.consumers.length ? D.daemon.consumers.map(consumer) : D.empty('No consumer is configured.', 'A section [[consumer]] in the config file makes one.'), others()),
  });
  const columns = ['Handler', 'Types', { name: 'Applied', right: true }, { name: 'Duplicates', right: true, title: 'recognised by the inbox and left alone' }, { name: 'Superseded', right: true, title: 'skipped, because a later version was applied' }, { name: 'Failing', right: true, title: 'events that have failed and are not parked' }, { name: 'Claims held', right: true }, 'Queue'];
  const queueCell = q => q ? h('span.queue', {}, h('b', {}, num(q.events)), h('span.quiet', {}, q.events ? ` · oldest ${dur(q.oldest_age_us)}` : ''), h('span.route', {}, `${num(q.ready)} ready, ${num(q.held)} held, ${num(q.later)} later, ${num(q.waiting)} behind`), q.parked ? h('a', { href: '#/parked' }, `${num(q.parked)} parked`) : null) : h('span.quiet', {}, 'none');
  const numbers = (known, queue) => [known ? short(known.applied) : '–', known ? num(known.duplicates_suppressed) : '–', known ? num(known.superseded) : '–', known && known.trying ? h('span.warn-text', {}, num(known.trying)) : known ? '0' : '–', known ? num(known.claims_held) : '–', queueCell(queue)];
  function consumer(conf) {
    const one = D.relay(conf.name), [kind, word] = one ? D.stateOf(one) : ['off', 'has not run yet'];
    return h('section.card.flush', { key: conf.name, 'aria-label': conf.name }, h('div.card-head', {}, h('h2.card-title', {}, h('a', { href: '#/relays/' + encodeURIComponent(conf.name) }, conf.name)), pill(kind, word), h('span.route', {}, h('a', { href: '#/stores/' + encodeURIComponent(conf.from) }, conf.from), ' → inbox of ', h('a', { href: '#/stores/' + encodeURIComponent(conf.to) }, conf.to)), one && h('span.hint', {}, `${rate(one.events_per_second)} · ${one.parked ? num(one.parked) + ' parked' : 'nothing parked'} · ${one.owner.split('#')[0] || 'nobody has it'}`)),
      table(columns, [...together(conf), ...conf.handlers.map(x => ({ key: x.name, cells: [h('span', {}, h('b', {}, x.name), h('span.route', {}, `${x.kind}, ${x.applies_once ? 'applies once' : 'at least once'}`)), x.types.length ? x.types.join(', ') : 'all', ...numbers(D.inbox(conf.to, x.name), D.queue(conf.to, x.name))] }))]));
  }
  // Handlers in one transaction are counted as one.
  function together(conf) {
    const whole = D.inbox(conf.to, conf.name);
    return whole ? [{ key: conf.name, cells: [h('span', {}, h('b', {}, conf.name), h('span.route', {}, 'handlers in its transaction, together')), '–', ...numbers(whole, null)] }] : [];
  }
  // Inboxes of services, which this config does not have.
  function others() {
    const known = new Set(D.daemon.consumers.flatMap(one => [one.name, ...one.handlers.map(x => x.name)].map(name => one.to + '/' + name)));
    const rows = D.status.stores.flatMap(store => store.consumers.filter(one => !known.has(store.name + '/' + one.name)).map(one => [store, one]));
    if (!rows.length) return null;
    return h('section.card.flush', { key: 'others' }, h('div.card-head', {}, h('h2.card-title', {}, 'Inboxes of services'), h('span.hint', {}, 'their consumers run elsewhere')), table(columns, rows.map(([store, one]) => ({ key: store.name + one.name, cells: [h('span', {}, h('b', {}, one.name), h('span.route', {}, 'in ' + store.name)), '–', ...numbers(one, D.queue(store.name, one.name))] }))));
  }

  // ---- databases and brokers
  const severity = { error: 'bad', warning: 'warn', note: 'info' };
  function findings(list) {
    if (!list) return h('p.quiet', {}, 'The doctor is looking.');
    return list.length ? h('ul.findings', {}, list.map(f => h('li', { key: f.code + f.what }, state(severity[f.severity], f.severity), h('div', {}, h('p', {}, f.what, ' ', mono(f.code, { class: 'quiet' })), f.what_to_do && h('p.remedy', {}, h('b', {}, 'Do: '), f.what_to_do))))) : h('p.quiet', {}, 'The doctor found nothing.');
  }
  const worst = list => !list ? ['off', 'not looked at yet'] : list.some(f => f.severity === 'error') ? ['bad', 'needs a look'] : list.some(f => f.severity === 'warning') ? ['warn', 'needs a look'] : ['ok', 'sound'];

  D.views.stores = async ({ name }) => {
    let report = { at: null, running: true, stores: [] }, slots = [], at = 0;
    const load = async () => {
      if (Date.now() - at < (report.running ? 2000 : 30000)) return;
      at = Date.now();
      [report, { slots }] = await Promise.all([D.get('doctor'), D.get('slots').catch(error => { if (error.status === 503 || error.status === 422) return { slots: [] }; throw error; })]);
    };
    const look = async () => { if (!D.mayAct()) return; try { report = await D.post('doctor'); at = 0; toast('The doctor is looking.'); D.show(); } catch (error) { D.fault(error); } };
    const render = () => {
      const found = one => { const known = report.stores.find(x => x.name === one); return known && known.findings; };
      const order = { bad: 0, warn: 1, off: 2, ok: 3 }, sorted = D.daemon.stores.slice().sort((a, b) => order[worst(found(a.name))[0]] - order[worst(found(b.name))[0]]);
      return h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Databases and brokers'), h('div.head-row', {}, h('p', {}, report.running ? 'The doctor is looking.' : `Worst first. The doctor looked ${age(D.time(report.at))} ago.`), h('div.actions', {}, button('Ask the doctor now', look, '', { disabled: report.running })))),
        sorted.map(one => (one.is_broker ? broker : database)(one, found(one.name), slots.filter(x => x.store === one.name), name === one.name)));
    };
    return { load, title: () => 'Databases and brokers', render, after: () => { const el = name && document.getElementById('store-' + name); if (el) el.scrollIntoView({ block: 'start' }); } };
  };
  const linked = (list, place) => list.map((one, i) => [i ? ', ' : '', h('a', { href: place + encodeURIComponent(one.name) }, one.name)]);
  function frame(one, list, isHere, ...body) {
    const away = D.isAway(one.name);
    return h('section.card', { key: one.name, id: 'store-' + one.name, class: 'card' + (isHere ? ' here' : ''), 'aria-label': one.name }, h('div.card-head', {}, h('h2.card-title', {}, one.name), away ? pill('bad', 'does not answer') : pill(...worst(list)), h('span.route', {}, `${one.kind} · ${one.path}`)),
      away && h('section.alert.is-bad', {}, state('bad'), h('div', {}, h('p', {}, D.said(away.text)), h('p.quiet', {}, away.effect))), body);
  }
  function database(one, list, slots, isHere) {
    const known = D.status.stores.find(x => x.name === one.name) || {}, about = known.rows_are_estimated ? 'about ' : '';
    const rows = (n, label) => n ? [label, `${about}${short(n)} rows`] : null;
    return frame(one, list, isHere, h('div.store-cols', {}, h('div', {}, h('h3', {}, 'What the doctor says'), findings(list)),
      h('div', {}, h('h3', {}, 'Sizes'), known.schema === undefined ? h('p.quiet', {}, known.error ? known.error.text : 'Not known yet.') : facts([rows(known.outbox_rows, 'Outbox'), rows(known.mailbox_rows, 'Mailbox'), rows(known.inbox_rows, 'Inbox'), [known.server ? 'Outbox on disk' : 'File', bytes(known.file_bytes)], known.wal_bytes ? ['WAL', bytes(known.wal_bytes)] : null, known.partitions ? ['Partitions', num(known.partitions)] : null, ['Schema', 'version ' + known.schema], known.server && ['Server', known.server + (known.standby ? ', a standby' : '')], known.delayed && ['Delayed', `${many(known.delayed.events, 'event')}, the first at ${stamp(D.time(known.delayed.next))}`]]))),
    slots.length > 0 && [h('h3', {}, 'Slots'), table(['Slot', 'Relay', 'Kept', 'Read now', 'State', { name: 'WAL kept', right: true }], slots.map(o => ({ key: o.name, kind: o.relay ? '' : 'warn', cells: [mono(o.name), o.relay ? h('a', { href: '#/relays/' + encodeURIComponent(o.relay) }, o.relay) : h('span.warn-text', {}, 'of no relay'), o.temporary ? 'as long as it is read' : 'always', o.active ? 'yes' : 'no', o.wal_status || '–', bytes(o.retained_bytes)] })))]);
  }
  function broker(one, list, _, isHere) {
    const fills = D.daemon.relays.filter(r => r.to === one.name), reads = [...D.daemon.relays, ...D.daemon.consumers].filter(c => c.from === one.name);
    return frame(one, list, isHere, h('div.store-cols', {}, h('div', {}, h('h3', {}, 'What the doctor says'), findings(list)), h('div', {}, h('h3', {}, 'Used by'), facts([['Filled by', fills.length ? linked(fills, '#/relays/') : 'nobody here'], ['Read by', reads.length ? linked(reads, '#/relays/') : 'nobody here']]))));
  }

  // ---- audit
  D.views.audit = async (_, params) => {
    let found = { audit: [], refused: [], next: null, problems: [] }, at = 0;
    const load = async () => { if (at && (params.after || Date.now() - at < 10000)) return; at = Date.now(); found = await D.get('audit', { store: params.store, what: params.what, who: params.who, after: params.after, limit: 50 }); };
    const link = change => { const text = new URLSearchParams(Object.entries({ ...params, ...change }).filter(([, v]) => v)).toString(); return '#/audit' + (text ? '?' + text : ''); };
    const stores = () => D.daemon.stores.filter(one => !one.is_broker);
    const what = a => /^[0-9a-f-]{36}$/.test(a.subject) ? h('a.id', { href: '#/events/' + a.subject, title: a.subject }, D.shortId(a.subject)) : a.subject;
    const verbs = ['replay', 'discard', 'reveal', 'edit', 'cancel', 'pause', 'drain', 'resume', 'seek', 'rename', 'retarget', 'forget relay', 'apply', 'forget', 'deliver again', 'remember', 'drop slot', 'refused'];
    const search = e => { e.preventDefault(); location.hash = link({ who: e.target.who.value.trim(), after: '' }); };
    // Refusals that no database has yet are in the memory of the daemon.
    const rows = () => [...found.audit.map(a => ({ at: a.at, key: a.store + a.at + a.subject, cells: [h('b', {}, a.who), a.what, a.relay || '–', what(a), a.events ? num(a.events) : '–', a.reason ? `“${a.reason}”` : h('span.quiet', {}, 'none given'), a.store] })),
      ...found.refused.map(a => ({ at: a.at, kind: 'warn', key: 'refused' + a.at + a.what, cells: [h('b', {}, a.who), h('span.warn-text', {}, 'refused'), '–', mono(a.what), '–', h('span.quiet', {}, `from ${a.peer}`), 'this daemon'] }))]
      .sort((a, b) => D.time(b.at) - D.time(a.at)).map(row => ({ ...row, cells: [h('time', { datetime: row.at, title: stamp(D.time(row.at), true) }, stamp(D.time(row.at))), ...row.cells] }));
    const render = () => h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Audit'), h('p', {}, 'Who did what, when and why. A database knows the login of the daemon; who asked the daemon is in the reason. Of requests that were refused for lack of a role, the last 1,000 are kept.')),
      h('form.filters', { role: 'search', onsubmit: search }, h('label.field.inline', {}, h('span', {}, 'Who'), h('input', { type: 'search', name: 'who', value: params.who || '', placeholder: 'a name or a login', autocomplete: 'off', spellcheck: 'false' })),
        h('label.field.inline', {}, h('span', {}, 'What'), h('select', { name: 'what', onchange: e => { location.hash = link({ what: e.target.value, after: '' }); } }, h('option', { value: '' }, 'all'), verbs.map(one => h('option', { value: one, selected: params.what === one }, one)))), h('label.field.inline', {}, h('span', {}, 'Store'), h('select', { name: 'store', onchange: e => { location.hash = link({ store: e.target.value, after: '' }); } }, h('option', { value: '' }, 'all'), stores().map(one => h('option', { value: one.name, selected: params.store === one.name }, one.name)))), h('button.btn', { type: 'submit' }, 'Find'), (params.who || params.what || params.store) && h('a', { href: '#/audit' }, 'Clear all filters')),
      found.problems.map(p => h('section.alert.is-bad', { key: p.store }, state('bad'), h('p', {}, h('b', {}, `The store ${p.store} does not answer: `), p.text))),
      found.audit.length + found.refused.length ? table([{ name: 'When' }, 'Who', 'What', 'Relay', { name: 'To what', wide: true }, { name: 'Events', right: true }, { name: 'Why', wide: true }, 'Store'], rows())
        : params.who || params.what || params.store ? D.empty('Nothing here.', 'No action matches.') : D.empty('Nobody has decided anything yet.', 'Replays, discards and revealed payloads are written down here.'),
      h('nav.pager', { 'aria-label': 'Pages' }, params.after && h('a.btn', { href: link({ after: '' }) }, 'Newest'), found.next && h('a.btn', { href: link({ after: found.next }) }, 'Older')));
    return { load, title: () => 'Audit', render };
  };

  // ---- states of the whole page
  D.missing = (text, href, label) => ({ title: () => 'Not found', render: () => h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Not found')), h('div.empty', {}, h('p', {}, text), h('a.btn', { href }, label))) });

  D.views.login = (signIn, why) => {
    const say = h('p.bad-text', { role: 'alert' }, why);
    const field = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', spellcheck: 'false' });
    const submit = async e => { e.preventDefault(); say.textContent = ''; try { await signIn(field.value.trim()); } catch (error) { say.textContent = error.status === 401 ? 'This token is not known.' : error.message; field.focus(); } };
    return h('main.login', { id: 'main', tabindex: -1 }, h('form.login-card', { onsubmit: submit },
      D.logo(), h('h1', {}, 'Dovetail'), h('input', { type: 'text', autocomplete: 'username', hidden: true, 'aria-label': 'User' }), h('p', {}, 'Sign in with a token. It decides what you may do.'), h('label.field', { for: 'token' }, h('span', {}, 'Token'), field), say, h('button.btn.btn-primary', { type: 'submit' }, 'Sign in'),
      h('dl.roles', {}, [['viewer', 'sees everything but payloads'], ['operator', 'also pauses and moves relays, replays, discards, and reveals payloads'], ['admin', 'also renames and forgets relays']].map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v)))),
      h('p.hint', {}, 'Tokens are in the file that http.tokens_file of the config names.')));
  };

  D.skeleton = () => h('div.page', { 'aria-busy': 'true', 'aria-label': 'Loading' }, h('div.skel.skel-verdict'), h('div.tiles', {}, Array.from({ length: 6 }, () => h('div.skel.skel-tile'))), h('div.skel.skel-graph'));
})();
