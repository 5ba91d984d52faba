// Overview, relays, one relay.
'use strict';
(() => {
  const { h, num, short, rate, dur, bytes, clock, age, ago, many, behind, said, state, icon, pill, mono, card, facts, meter, table, chart } = D;

  // ---- the pipeline out of the config, with the states of the stores
  const kindOfStore = name => (D.daemon.stores.find(one => one.name === name) || { kind: '' }).kind;

  function lineOf(one) {
    if (!one) return 'has not run yet';
    const [, word] = D.stateOf(one);
    if (one.state === 'backing_off' || one.state === 'halted' || one.state === 'stopped') return one.pending ? `${word} · ${short(one.pending)} pending` : word;
    if (one.parked) return `${num(one.parked)} parked · ${num(one.waiting)} ${one.waiting === 1 ? 'waits' : 'wait'}`;
    if (one.pending === null) return rate(one.events_per_second);
    return one.pending ? `${short(one.pending)} pending · ${dur(one.oldest_age_us)}` : 'nothing pending';
  }

  function addRelays(nodes, edges) {
    for (const conf of D.daemon.relays) {
      const one = D.relay(conf.name), [kind] = one ? D.stateOf(one) : ['off'];
      nodes.push({ id: 'r:' + conf.name, role: 'Relay', col: 1, title: conf.name, kind: conf.lanes > 1 ? '×' + conf.lanes : '', line: lineOf(one), state: kind, href: '#/relays/' + encodeURIComponent(conf.name) });
      const out = one && kind !== 'bad' && kind !== 'off' ? one.events_per_second : 0;
      edges.push({ from: 's:' + conf.from, to: 'r:' + conf.name, state: kind === 'off' ? 'off' : 'ok', rate: out });
      edges.push({ from: 'r:' + conf.name, to: 't:' + conf.to, state: kind === 'bad' ? 'bad' : kind === 'off' ? 'off' : 'ok', rate: out, text: kind === 'bad' && one.state_since ? age(D.time(one.state_since)).replace(/ \d+ s$/, '') : rate(out) });
    }
  }
  function addConsumers(nodes, edges, targets) {
    for (const conf of D.daemon.consumers) {
      const one = D.relay(conf.name), [kind] = one ? D.stateOf(one) : ['off'];
      nodes.push({ id: 'c:' + conf.name, role: 'Consumer', col: 3, title: conf.name, kind: 'to ' + conf.to, line: lineOf(one), state: kind, href: '#/consumers' });
      const origin = targets.has(conf.from) ? 't:' : 's:';
      edges.push({ from: origin + conf.from, to: 'c:' + conf.name, state: kind === 'bad' ? 'bad' : kind === 'off' ? 'off' : 'ok', rate: one ? one.events_per_second : 0 });
      for (const handler of conf.handlers) {
        const known = D.inbox(conf.to, handler.name), whole = known || D.inbox(conf.to, conf.name), queue = D.queue(conf.to, handler.name);
        const parked = queue ? queue.parked : 0;
        const line = !whole ? 'has not run yet' : parked ? `${num(parked)} parked` : queue && queue.events ? `${num(queue.events)} queued · ${dur(queue.oldest_age_us)}` : known ? `${short(known.applied)} applied` : queue ? 'nothing queued' : 'applies';
        nodes.push({ id: 'h:' + handler.name, role: 'Handler', col: 4, title: handler.name.split('.').pop(), kind: handler.kind, line, state: parked ? 'warn' : whole ? 'ok' : 'off', href: parked ? '#/parked' : '#/consumers' });
        edges.push({ from: 'c:' + conf.name, to: 'h:' + handler.name, state: 'ok', rate: one ? one.events_per_second : 0 });
      }
    }
  }
  const gone = { 'disk-full': 'its disk is full', 'pooler-down': 'its pooler is down', 'database-unusable': 'cannot be used' };
  function graphNow() {
    const nodes = [], edges = [];
    const targets = new Set(D.daemon.relays.map(one => one.to));
    const sources = new Set([...D.daemon.relays.map(one => one.from), ...D.daemon.consumers.map(one => one.from).filter(name => !targets.has(name))]);
    const node = (name, col, prefix, role) => {
      const away = D.isAway(name), known = D.status.stores.find(one => one.name === name) || {};
      const rows = prefix === 's:' ? known.outbox_rows : known.mailbox_rows;
      const line = away ? (gone[away.kind] || 'no answer') + (away.since ? ` for ${age(D.time(away.since))}` : '') : rows === undefined ? 'a broker' : known.rows_are_estimated && !rows ? 'few rows' : `${known.rows_are_estimated ? 'about ' : ''}${short(rows)} rows`;
      nodes.push({ id: prefix + name, role, col, title: name, kind: kindOfStore(name), line, state: away ? 'bad' : 'ok', href: '#/stores/' + encodeURIComponent(name) });
    };
    sources.forEach(name => node(name, 0, 's:', 'Source'));
    addRelays(nodes, edges);
    targets.forEach(name => node(name, 2, 't:', 'Target'));
    addConsumers(nodes, edges, targets);
    return { nodes, edges };
  }

  // ---- overview
  const hrefOf = problem => problem.kind === 'parked' ? '#/parked' : problem.where.consumer ? '#/consumers' : problem.where.relay ? '#/relays/' + encodeURIComponent(problem.where.relay) : '#/stores/' + encodeURIComponent(problem.where.store);
  const verdictKind = { ok: 'ok', note: 'off', warning: 'warn', error: 'bad' };

  function verdict() {
    const v = D.status.verdict, kind = verdictKind[v.kind] || 'info';
    return h('section.verdict', { class: 'verdict is-' + kind, 'aria-label': 'Verdict' }, h('div.verdict-head', {}, state(kind), h('div', {}, h('h1', {}, v.title), h('p', {}, v.text))),
      D.status.problems.length > 0 && h('ol.problems', {}, D.status.problems.map(p => h('li', { key: [p.kind, p.where.store, p.where.relay, p.where.consumer].join('/') }, h('a.problem', { href: hrefOf(p) }, state(D.severities[p.severity], p.severity),
        h('b', {}, p.title), h('span.problem-text', {}, said(p.text), ' ', h('em', {}, p.effect)), h('span.problem-since', {}, p.since ? 'for ' + age(D.time(p.since)) : ''), icon('right'))))));
  }

  // The numbers are as old as the last answer of the slowest database.
  function delay() {
    const old = D.time(D.daemon.time) - D.time(D.status.time);
    return old > 15000 && h('section.alert.is-warn', { key: 'delay' }, state('warn'), h('p', {}, h('b', {}, `These numbers are ${dur(old * 1000)} old. `), 'A database takes long to answer.'));
  }

  const tile = (label, value, sub, kind, href, extra) => h(href ? 'a.tile' : 'div.tile', { href, class: 'tile' + (kind ? ' is-' + kind : '') }, h('span.tile-label', {}, label), h('b.tile-value', {}, value), h('span.tile-sub', {}, sub), extra);
  const pair = (a, b) => [a, h('i', {}, ' / '), b];

  // Of all relays and consumers of this process, the worst.
  function latency() {
    const all = [...D.daemon.relays, ...D.daemon.consumers].map(one => one.counts).filter(one => one && one.commit_to_confirm_p99_us !== null);
    if (!all.length) return null;
    const worst = all.reduce((a, b) => b.commit_to_confirm_p99_us > a.commit_to_confirm_p99_us ? b : a);
    return [worst.commit_to_confirm_p50_us, worst.commit_to_confirm_p99_us];
  }
  function tiles() {
    const T = D.status.totals, times = latency();
    const duplicates = D.status.stores.flatMap(one => one.consumers).reduce((a, one) => a + one.duplicates_suppressed, 0);
    const isLate = D.status.problems.some(p => p.kind === 'lag');
    return h('section.tiles', { 'aria-label': 'Numbers' },
      tile('Pending', num(T.pending), T.pending === null ? 'not known everywhere' : T.pending ? 'wait in their databases' : 'nothing waits', D.status.verdict.kind === 'error' && T.pending ? 'bad' : '', '#/events?state=pending'),
      tile('Oldest waits', T.oldest_in ? dur(T.oldest_age_us) : '–', T.oldest_in ? 'in ' + T.oldest_in : 'nothing waits', isLate ? 'bad' : '', T.oldest_in ? '#/relays/' + encodeURIComponent(T.oldest_in) : '#/relays'),
      tile('Delivered', rate(T.events_per_second), `${short(T.delivered_total)} so far`, '', '#/relays'),
      times && tile('Commit to confirm', pair(dur(times[0]), dur(times[1])), 'p50 / p99, slowest relay', '', '#/relays'),
      tile('Parked', num(T.parked), T.parked ? behind(T.waiting) : 'nothing needs a decision', T.parked ? 'warn' : '', '#/parked'),
      tile('Duplicates suppressed', num(duplicates), 'none was applied twice', '', '#/consumers'));
  }

  // Without the number that tells two processes of one name apart.
  const ownerOf = one => [...new Set(one.owner.split(', ').map(name => name.split('#')[0]))].join(', ');

  // One square for each lane, in the row of the process that owns it.
  function owners() {
    const rows = new Map();
    for (const one of D.relays()) for (const lane of one.lanes || [{ lane: null, owner: one.owner, epoch: one.epoch, lease_left_us: one.lease_left_us }]) {
      if (!lane.owner || lane.lease_left_us <= 0) continue;
      const name = ownerOf(lane);
      if (!rows.has(name)) rows.set(name, []);
      rows.get(name).push([one, lane]);
    }
    if (!rows.size) return h('p.quiet', {}, 'No process has a relay.');
    return h('div.owners', {}, [...rows].sort((a, b) => b[1].length - a[1].length).map(([owner, list]) => h('div.owner', { key: owner }, h('div', {}, h('b', {}, owner.split(':')[0]), h('span.quiet', {}, ` process ${owner.split(':')[1] || ''} · ${many(list.length, 'lane')}`)),
      h('div.lane-squares', {}, list.map(([one, lane]) => h('a', { class: 'lane-sq is-' + D.stateOf(one)[0], href: '#/relays/' + encodeURIComponent(one.name), title: `epoch ${lane.epoch}, lease left ${dur(lane.lease_left_us)}` }, one.name, one.lanes && one.lanes.length > 1 ? h('i', {}, ' ' + lane.lane) : ''))))));
  }
  const feed = audit => audit.length ? h('ul.feed', {}, audit.map(a => h('li', { key: a.at }, h('span.feed-who', {}, a.who), ' ', h('b', {}, a.what), ' ', a.relay || (/^[0-9a-f-]{36}$/.test(a.subject) ? h('a.id', { href: '#/events/' + a.subject, title: a.subject }, D.shortId(a.subject)) : a.subject), a.reason && h('span.quiet', {}, ` “${a.reason}”`), h('span.feed-at', {}, ago(D.time(a.at)))))) : h('p.quiet', {}, 'Nobody has decided anything yet.');

  // ---- charts of what this process remembers
  const startOf = one => ({ start: D.time(one.start), step: one.step_us / 1000 });
  async function histories(names) {
    const all = await Promise.all(names.slice(0, 6).map(name => D.get('history', { relay: name }).catch(error => { if (error.status === 404) return null; throw error; })));
    return all.filter(Boolean);
  }
  // Series of several relays begin at one time.
  function align(all, column) {
    const steps = all.map(startOf), step = steps[0].step, end = Math.max(...all.map((one, i) => steps[i].start + one[column].length * step)), n = Math.max(...all.map(one => one[column].length));
    return { start: end - n * step, step, series: all.map((one, i) => { const late = Math.round((end - steps[i].start) / step) - one[column].length; return { name: one.relay, values: [...Array(Math.max(0, n - one[column].length - late)).fill(null), ...one[column], ...Array(late).fill(null)].slice(-n) }; }) };
  }
  const kinds = ['a', 'n', 'warn', 'bad'];
  function chartOf(title, all, column, format, more) {
    const some = all.filter(one => one[column].filter(v => v !== null).length > 1);
    if (!some.length) return card(title, h('p.quiet', {}, 'Measured every 20 s by this process. The line begins within a minute.'));
    const { start, step, series } = align(some, column);
    return card(title, chart.line({ title, start, step, format, ...more, series: series.slice(0, 4).map((one, i) => ({ ...one, kind: kinds[i] })) }));
  }

  // Several lines of one relay.
  function linesOf(title, one, columns, format, more) {
    const isMeasured = one && columns.some(([column]) => one[column].filter(v => v !== null).length > 1);
    if (!isMeasured) return card(title, h('p.quiet', {}, 'Measured every 20 s by this process. The line begins within a minute.'));
    return card(title, chart.line({ title, ...startOf(one), format, ...more, series: columns.map(([column, name], i) => ({ name, values: one[column], kind: kinds[i] })) }));
  }

  D.views.overview = async () => {
    let audit = [], all = [], at = 0;
    const load = async () => {
      if (Date.now() - at < 20000) return;
      at = Date.now();
      const names = [...D.daemon.relays, ...D.daemon.consumers].filter(one => one.counts).map(one => one.name);
      [{ audit }, all] = await Promise.all([D.get('audit', { limit: 5 }), histories(names)]);
    };
    return {
      load, title: () => D.status.verdict.title,
      render: () => h('div.page', {}, delay(), verdict(), tiles(),
        h('section.card.flush', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Pipeline'), h('span.hint', {}, 'width is rate; point at a part to see what depends on it')), D.pipeline(graphNow())),
        h('div.two', {}, chartOf('Age of the oldest waiting event', all, 'oldest_age_us', dur, { base: 'time', low: 4e6 }), chartOf('Events delivered each second', all, 'out_per_second', rate)),
        h('div.two', {}, card('Who owns what', owners()), card('Lately done by people', feed(audit), h('a.more', { href: '#/audit' }, 'The whole audit')))),
    };
  };

  // ---- relays
  const routeOf = one => `${one.from || one.store}${one.table ? '.' + one.table : ''} → ${one.to || one.target || ''}`;
  const order = { bad: 0, warn: 1, off: 2, info: 3, ok: 4 };

  D.views.relays = async () => ({
    title: () => 'Relays',
    render: () => {
      const list = D.relays().sort((a, b) => order[D.stateOf(a)[0]] - order[D.stateOf(b)[0]]);
      return h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Relays'), h('p', {}, 'Worst first. A relay carries events from one store to another. A consumer that reads an outbox is a relay of the same name.')),
        list.length ? table(['Relay', 'State', { name: 'Pending', right: true }, { name: 'Oldest', right: true }, { name: 'Rate', right: true }, { name: 'Parked', right: true }, { name: 'Wait behind', right: true }, { name: 'Delivered', right: true }, 'Reads', 'Owner'],
          list.map(r => { const [kind, word] = D.stateOf(r); return { key: r.store + '/' + r.name, kind, cells: [h('a', { href: '#/relays/' + encodeURIComponent(r.name) }, h('b', {}, r.name), h('span.route', {}, routeOf(r))), pill(kind, word), num(r.pending), r.pending ? dur(r.oldest_age_us) : '–', rate(r.events_per_second), r.parked ? h('a', { href: '#/parked' }, num(r.parked)) : '0', num(r.waiting), short(r.delivered_total), r.reads ? `the ${r.reads.from === 'wal' ? 'WAL' : 'table'}` : r.source === 'broker' ? 'a broker' : 'the ' + (r.source === 'mapped' ? 'table' : r.source), ownerOf(r) || h('span.quiet', {}, 'nobody')] }; }))
          : D.empty('No relay has run yet.', 'It appears here when it starts for the first time.'),
        h('p.foot-note', {}, 'The same by command line: ', mono('dovetail status')));
    },
  });

  // ---- one relay
  function lanesCard(r, conf) {
    if (!r.lanes) return null;
    return h('section.card.flush', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Lanes'), h('span.hint', {}, 'the epoch rises at every take-over; writes of an older epoch are refused')),
      table(['Lane', 'State', 'Owner', 'Lease left', { name: 'Epoch', right: true }, { name: 'Pending', right: true }],
        r.lanes.map(l => ({ key: l.lane, cells: [`lane ${l.lane}`, pill(...D.stateOf({ ...l, parked: 0 })), ownerOf(l) || h('span.quiet', {}, 'nobody'), h('span.with-meter', {}, h('span.num', {}, l.owner ? dur(l.lease_left_us) : '–'), conf && meter(l.lease_left_us, conf.lease_us, 'Lease left')), num(l.epoch), num(l.pending)] }))));
  }
  function readsLine(r) {
    if (!r.reads) return null;
    return h('section.reads', {}, icon(r.reads.from === 'wal' ? 'play' : 'events'), h('p', {}, h('b', {}, `Reads the ${r.reads.from === 'wal' ? 'WAL' : 'table'}`), ` for ${age(D.time(r.reads.since))}`, r.reads.why && `: ${r.reads.why}`, '.', r.reads.slot && [!(r.reads.why || '').includes(r.reads.slot) && [' Its slot is ', mono(r.reads.slot), '.'], ` The server retains ${bytes(r.reads.retained_wal_bytes)} of WAL for it.`]));
  }
  function errorLine(r) {
    const text = r.error ? r.error.text : r.last_error;
    if (!text || !['backing_off', 'halted', 'stopped'].includes(r.state) && !r.error) return null;
    const next = r.next_try && D.time(r.next_try);
    return h('section.alert.is-bad', {}, state('bad'), h('div', {}, h('p', {}, text), r.state_since && h('p.quiet', {}, `Since ${clock(D.time(r.state_since))} UTC.`, next ? ` Next attempt ${next > D.now() ? 'in ' + dur((next - D.now()) * 1000) : 'now'}.` : '', r.state === 'halted' ? ' It starts by itself when the cause is gone.' : '')));
  }
  function heldLine(r) {
    return r.hold && h('section.alert.is-off', { key: 'held' }, state('off'), h('p', {}, h('b', {}, `It has been ${r.state} for ${age(D.time(r.hold.since))}: `), r.hold.reason, h('span.quiet', {}, ` (${r.hold.by})`)));
  }
  function settingsCard(conf) {
    if (!conf) return card('Settings', h('p.quiet', {}, 'The config file of this daemon does not have this relay.'));
    return card('Settings that matter', facts([conf.mode && ['mode', conf.mode], ['lanes', num(conf.lanes)], conf.topic && ['topic', mono(conf.topic)], ['attempts_max', `${num(conf.attempts_max)}: then the event is parked, and its key waits`], ['lease', `${dur(conf.lease_us)}: a stand-by waits so long`], ['window_events', `${num(conf.window_events_max)}: at most so many duplicates after a crash`]]), h('p.hint', {}, 'From the config file of this daemon.'));
  }

  // What the daemon says will follow is shown as it is.
  const orders = { pause: ['Pause', 'is paused'], drain: ['Drain', 'drains'], resume: ['Resume', 'continues'], seek: ['Move', 'continues elsewhere'], rename: ['Rename', 'has its new name'], forget: ['Forget', 'is forgotten'] };
  const isForAdmins = verb => verb === 'rename' || verb === 'forget';
  async function give(r, verb, what = {}) {
    const [word, done] = orders[verb], role = isForAdmins(verb) ? 'admin' : 'operator', path = `relays/${encodeURIComponent(r.name)}/${verb}`;
    if (!D.mayAct(role)) return;
    const order = { store: r.store, ...what };
    let plan;
    try { plan = await D.post(path, { ...order, dry_run: true }); } catch (error) { D.fault(error); return; }
    const counts = [[plan.sent_again, 'sent again'], [plan.skipped, 'skipped'], [plan.pending, 'pending'], [plan.parked, 'parked']].filter(([n, text]) => n || text === 'pending'), is_loss = verb === 'forget' || plan.skipped > 0;
    const options = { seek: ` --to '${what.to}'`, rename: ` ${what.new_name}` }[verb] || '';
    D.dialog({ title: `${word} ${r.name}?`, confirm: word, kind: is_loss ? 'bad' : '', role, reason: { hint: 'Why? For those who look tomorrow' }, cmd: `dovetail relay ${verb} ${r.name}${options} --reason '...'`,
      body: [counts.length > 0 && h('div.counts', {}, counts.map(([n, text]) => h('div', {}, h('b', {}, num(n)), h('span', {}, text)))), h('h3', {}, 'What will happen'), D.will(plan.consequences.map(one => [one.kind === 'skipped' ? 'bad' : one.kind === 'sent-again' ? 'warn' : 'info', said(one.text).replace(/^./, first => first.toUpperCase())]))],
      onconfirm: async reason => { try { await D.post(path, { ...order, reason }); D.toast(`${r.name} ${done}.`); if (verb === 'rename' || verb === 'forget') location.hash = '#/relays'; D.refresh(); } catch (error) { D.fault(error); } } });
  }
  // First where to, then what follows from it.
  function askWhere(r) {
    const text = h('input', { type: 'text', name: 'to', value: '', 'aria-label': 'Number or time', placeholder: '2026-01-31T09:05:00Z or 4711', autocomplete: 'off', spellcheck: 'false' });
    const kinds = [['beginning', 'The beginning. ', 'Everything that is still in the store goes out again.'], ['now', 'Now. ', 'What is pending is skipped.'], ['there', 'An event or a time. ', 'Its number, or the time of the first event, in UTC.']];
    const radios = kinds.map(([value]) => h('input', { type: 'radio', name: 'where', value, checked: value === 'there' }));
    text.addEventListener('focus', () => { radios[2].checked = true; });
    D.dialog({ title: `Where does ${r.name} continue?`, confirm: 'Show what will happen', body: [h('div', {}, kinds.map(([, title, more], i) => h('label.radio', {}, radios[i], h('span', {}, h('b', {}, title), more)))), h('label.field', {}, h('span', {}, 'Number or time'), text)],
      onconfirm: () => { const to = radios.find(one => one.checked).value; give(r, 'seek', { to: to === 'there' ? text.value.trim() : to }); } });
  }
  function askName(r) {
    const text = h('input', { type: 'text', name: 'new_name', value: r.name, autocomplete: 'off', spellcheck: 'false' });
    D.dialog({ title: `Rename ${r.name}`, confirm: 'Show what will happen', role: 'admin', body: [h('p', {}, 'First stop every process that runs it. Its progress, counts and parked events get the new name.'), h('label.field', {}, h('span', {}, 'New name'), text)], onconfirm: () => give(r, 'rename', { new_name: text.value.trim() }) });
  }
  function orderButtons(r) {
    const isHeld = ['paused', 'draining', 'drained'].includes(r.state), isConsumer = D.daemon.consumers.some(one => one.name === r.name);
    const verbs = isHeld ? ['resume'] : ['pause', 'drain'];
    const pick = (text, act) => D.button(text, e => { e.target.closest('details').open = false; act(r); });
    return h('div.actions', { key: 'orders-' + isHeld }, verbs.map(verb => D.button(orders[verb][0] + '…', () => give(r, verb), verb === 'resume' ? 'primary' : '')),
      h('details.menu', {}, h('summary.btn', {}, 'More'), h('div.menu-list', {}, r.source !== 'broker' && r.source !== 'mapped' && pick('Move…', askWhere), !isConsumer && r.source !== 'broker' && r.source !== 'mapped' && pick('Rename…', askName), pick('Forget…', one => give(one, 'forget')))));
  }

  D.views.relay = async ({ name }) => {
    if (!D.relay(name) && !D.configured(name)) return D.missing(`There is no relay ${name}.`, '#/relays', 'All relays');
    let all = [], at = 0;
    const load = async () => { if (Date.now() - at > 20000) { at = Date.now(); all = await histories([name]); } };
    const render = () => {
      const r = D.relay(name), conf = D.configured(name);
      if (!r) return h('div.page', {}, h('header.page-head', {}, h('h1', {}, name)), D.empty('It has not run yet.', 'Its numbers appear here when it starts for the first time.'), settingsCard(conf));
      const [kind, word] = D.stateOf(r), counts = conf && conf.counts;
      return h('div.page', {}, h('header.page-head', {}, h('nav.crumbs', { 'aria-label': 'Path' }, h('a', { href: '#/relays' }, 'Relays'), ' / '), h('div.head-row', {}, h('h1', {}, r.name), pill(kind, r.state_since && kind === 'bad' ? `${word} for ${age(D.time(r.state_since))}` : word), h('span.route', {}, routeOf(r)), orderButtons(r))),
        heldLine(r), errorLine(r), readsLine(r),
        h('section.tiles', { 'aria-label': 'Numbers' },
          tile('Pending', num(r.pending), r.pending === null ? 'only the broker knows' : counts ? `${num(counts.window_events)} in flight here` : 'in the store', kind === 'bad' && r.pending ? 'bad' : ''),
          tile('Oldest waits', r.pending ? dur(r.oldest_age_us) : '–', r.pending ? 'since its commit' : 'nothing waits'),
          tile('Delivered', rate(r.events_per_second), `${short(r.delivered_total)} so far`),
          counts && counts.commit_to_confirm_p99_us !== null && tile('Commit to confirm', pair(dur(counts.commit_to_confirm_p50_us), dur(counts.commit_to_confirm_p99_us)), 'p50 / p99'),
          tile('Parked', num(r.parked), r.parked ? behind(r.waiting) : 'nothing needs a decision', r.parked ? 'warn' : '', '#/parked'),
          counts && tile('Window', pair(num(counts.window_events), short(conf.window_events_max)), 'read and not finished', '', null, meter(counts.window_events, conf.window_events_max, 'Window'))),
        lanesCard(r, conf),
        h('div.two', {}, chartOf('Age of the oldest waiting event', all, 'oldest_age_us', dur, { base: 'time', low: 2e6 }), linesOf('Events read and delivered each second', all[0], [['out_per_second', 'delivered'], ['in_per_second', 'read']], rate)),
        h('div.two', {}, linesOf('Commit to confirm', all[0], [['p50_us', 'p50'], ['p99_us', 'p99']], dur), linesOf('Parked events', all[0], [['parked', 'parked']], num, { base: 'count' })),
        h('div.two', {}, card('Now', facts([['Owner', ownerOf(r) || 'nobody'], ['Epoch', num(r.epoch)], ['Lease left', r.owner ? dur(r.lease_left_us) : '–'], ['Replayed so far', num(r.replayed_total)], ['Parked so far', num(r.parked_total)], counts && ['Writes refused as stale', num(counts.refused_stale_writes)], ['Target', r.target || r.to]])), settingsCard(conf)));
    };
    return { load, title: () => name, render };
  };
})();
