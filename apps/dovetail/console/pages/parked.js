// Parked events by reason, and the decisions about them.
'use strict';
(() => {
  const { h, s, num, age, ago, many, shortId, state, icon, button, table, dialog, toast } = D;

  const chosen = new Map(); // event id -> its row
  const open = new Set();   // ids of groups
  const loaded = new Map(); // group id -> { rows, next, key }

  const hrefOf = id => '#/events/' + id;
  const keyOf = row => row.key ? `${row.aggregate_type}/${row.key}` : row.aggregate_type;
  const will = items => h('ul.will', {}, items.filter(Boolean).map(([kind, text]) => h('li', {}, state(kind), h('span', {}, text))));

  async function more(group) {
    const held = loaded.get(group) || { rows: [], next: '', matching: 0, key: '' };
    const page = await D.get('parked/' + group, { key: held.key, after: held.next, limit: 50 });
    loaded.set(group, { ...held, rows: [...held.rows, ...page.parked], next: page.next, matching: page.matching });
  }
  // What is shown, again from its beginning.
  async function reload(group) {
    const held = loaded.get(group), wanted = Math.max(50, held ? held.rows.length : 0);
    let rows = [], next = '', matching = 0;
    do {
      const page = await D.get('parked/' + group, { key: held ? held.key : '', after: next, limit: Math.min(200, wanted - rows.length) });
      rows = [...rows, ...page.parked]; ({ next, matching } = page);
    } while (next && rows.length < wanted);
    loaded.set(group, { rows, next, matching, key: held ? held.key : '' });
  }

  D.views.parked = async () => {
    let groups = [], complete = true, problems = [], at = 0, isFirst = true;
    const load = async force => {
      if (!force && Date.now() - at < 5000) return;
      at = Date.now();
      ({ groups, complete, problems } = await D.get('parked', { limit: 200 }));
      const ids = new Set(groups.map(g => g.id));
      for (const id of [...open]) if (!ids.has(id)) { open.delete(id); loaded.delete(id); }
      if (isFirst && !open.size && groups.length) open.add(groups[0].id);
      isFirst = false;
      await Promise.all([...open].map(reload));
      const there = new Set([...loaded.values()].flatMap(one => one.rows.map(row => row.id)));
      for (const id of [...chosen.keys()]) if (!there.has(id)) chosen.delete(id);
    };
    const again = async () => { await load(true); D.show(); };
    return { load, title: () => 'Parked', render: () => page(groups, complete, problems, again) };
  };

  function page(groups, complete, problems, again) {
    const total = groups.reduce((a, g) => a + g.parked, 0), behind = groups.reduce((a, g) => a + g.waiting, 0);
    const silent = problems.map(p => h('section.alert.is-bad', { key: p.store }, state('bad'), h('p', {}, h('b', {}, `The store ${p.store} does not answer: `), p.text)));
    if (!total) return h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Parked')), silent, problems.length ? null : h('div.empty.good', {}, state('ok'), h('p.empty-title', {}, 'Nothing is parked.'), h('p', {}, 'An event comes here when its receiver refuses it, or fails at it too often. Its key waits; all others flow.')));
    return h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Parked'), h('p', {}, `${many(total, 'event')} ${total === 1 ? 'is' : 'are'} parked for ${many(groups.length, 'reason')}. ${behind ? `${many(behind, 'later event')} ${behind === 1 ? 'waits' : 'wait'} behind, and ${behind === 1 ? 'goes' : 'go'} out once the first of the key is replayed or discarded.` : 'Nothing waits behind.'}${complete ? '' : ' There are more than this page reads.'}`)),
      silent, h('div.groups', {}, groups.map(g => groupCard(g, again))), selectBar(again));
  }

  function selectBar(again) {
    const list = [...chosen.values()], waiting = list.reduce((a, row) => a + row.behind, 0), n = list.length;
    return h('div.select-bar', { role: 'region', 'aria-label': 'Selection', hidden: !n, key: 'bar-' + list.map(row => row.id).join() }, h('p', { 'aria-live': 'polite' }, h('b', {}, many(n, 'parked event')), ' selected', h('span.quiet', {}, ` · ${many(waiting, 'later event')} ${waiting === 1 ? 'waits' : 'wait'} behind`)),
      h('div.actions', {}, button('Clear', () => { chosen.clear(); D.show(); }, 'plain'), n === 1 && h('a.btn', { href: hrefOf(list[0].id) + '/edit' }, 'Edit and replay…'), button(`Discard ${num(n)}…`, () => decide('discard', { ids: list.map(row => row.id) }, again)), button(`Replay ${num(n)}…`, () => decide('replay', { ids: list.map(row => row.id) }, again), 'primary')));
  }

  function hours(values) {
    const max = Math.max(1, ...values);
    return s('svg.hours', { viewBox: '0 0 96 24', 'aria-hidden': 'true', preserveAspectRatio: 'none' }, values.map((v, i) => s('rect', { class: v ? 'on' : 'off', x: i * 4, width: 3, y: v ? 24 - Math.max(3, v / max * 24) : 23, height: v ? Math.max(3, v / max * 24) : 1 })));
  }
  function groupCard(g, again) {
    const isOpen = open.has(g.id), held = loaded.get(g.id);
    const toggle = async () => { if (open.has(g.id)) open.delete(g.id); else { open.add(g.id); D.show(); await reload(g.id).catch(D.fault); } D.show(); };
    const head = h('button.group-head', { type: 'button', 'aria-expanded': String(isOpen), 'aria-controls': 'g-' + g.id, onclick: toggle },
      icon('right'), h('span.group-count', {}, h('b', {}, num(g.parked)), h('small', {}, g.parked === 1 ? 'event' : 'events')),
      h('span.group-text', {}, h('span.group-reason', {}, g.reason), h('span.quiet', {}, `${g.relay} · ${g.types.join(', ')} · first ${age(D.time(g.first_at))} ago, last ${age(D.time(g.last_at))} ago`)),
      h('span.group-wait', {}, h('b', {}, num(g.waiting)), h('small', {}, g.waiting === 1 ? 'waits behind' : 'wait behind')), h('span.group-hours', {}, hours(g.per_hour), h('small', {}, 'last 24 h')));
    return h('section.group', { key: g.id, 'aria-label': g.reason }, head, h('div.group-body', { id: 'g-' + g.id, hidden: !isOpen }, isOpen && held && [tools(g, held, again), rows(held), held.next ? button('Show more', () => more(g.id).then(D.show, D.fault), 'plain') : null]));
  }
  function tools(g, held, again) {
    const ids = held.rows.map(row => row.id), count = ids.filter(id => chosen.has(id)).length;
    const all = h('input', { type: 'checkbox', 'aria-label': 'Select all that are shown', checked: count > 0 && count === ids.length, onchange: e => { for (const row of loaded.get(g.id).rows) if (e.target.checked) chosen.set(row.id, row); else chosen.delete(row.id); D.show(); } });
    all.indeterminate = count > 0 && count < ids.length;
    const choice = { group: g.id, ...(held.key ? { key_part: held.key } : {}) }, all_of = num(held.key ? held.matching : g.parked), none = { disabled: !!held.key && !held.matching };
    let wait = 0;
    const filter = h('input.small', { type: 'search', placeholder: 'Filter keys', 'aria-label': 'Filter keys', value: held.key, oninput: e => { clearTimeout(wait); const text = e.target.value.trim(); wait = setTimeout(() => { loaded.set(g.id, { rows: [], next: '', matching: 0, key: text }); reload(g.id).then(D.show, D.fault); }, 300); } });
    return h('div.group-tools', {}, h('label.check', {}, all, h('b', {}, `${num(ids.length)} shown`)),
      h('div.actions', {}, filter, button(`Discard all ${all_of}…`, () => decide('discard', choice, again), '', { ...none, key: 'discard ' + held.key }), button(`Replay all ${all_of}…`, () => decide('replay', choice, again), 'primary', { ...none, key: 'replay ' + held.key })));
  }
  function rows(held) {
    if (!held.rows.length) return h('p.result.inset', {}, 'No key matches.');
    return table([{ name: 'Key' }, { name: 'Event' }, { name: 'Type' }, { name: 'Wait behind', right: true }, { name: 'Attempts', right: true }, { name: 'Parked', right: true }, { name: 'Change', head: h('span.sr', {}, 'Change'), right: true }],
      held.rows.map(row => ({ key: row.id + row.relay, cells: [h('label.check', {}, h('input', { type: 'checkbox', checked: chosen.has(row.id), onchange: e => { if (e.target.checked) chosen.set(row.id, row); else chosen.delete(row.id); D.show(); } }), h('b', {}, keyOf(row))), h('a.id', { href: hrefOf(row.id), title: row.id }, shortId(row.id)), row.type, num(row.behind), num(row.attempts), ago(D.time(row.parked_at)), h('a', { href: hrefOf(row.id) + '/edit', 'aria-label': `Edit ${keyOf(row)}` }, 'Edit')] })));
  }

  // ---- decisions: first the counts, then a dialog that says what will happen
  async function decide(verb, choice, done) {
    if (!D.mayAct()) return;
    let n;
    try { n = await D.post('parked/' + verb, { ...choice, dry_run: true }); } catch (error) { D.fault(error); return; }
    if (!n.parked) { toast('None of these is parked any more.', 'warn'); done(); return; }
    const counts = h('div.counts', {}, [[num(n.parked), n.parked === 1 ? 'parked event' : 'parked events'], [num(n.waiting), n.waiting === 1 ? 'waits behind' : 'wait behind'], [num(n.keys), n.keys === 1 ? 'key' : 'keys'], [n.relays.join(', '), 'takes them']].map(([a, b]) => h('div', {}, h('b', {}, a), h('span', {}, b))));
    const carefully = h('input', { type: 'radio', name: 'how', checked: true }), once = h('input', { type: 'radio', name: 'how' });
    const how = verb === 'replay' && n.parked > 1 && [h('h3', {}, 'How'), h('div', {}, h('label.radio', {}, carefully, h('span', {}, h('b', {}, 'One first, then the rest. '), 'If the first one is parked again, the others stay where they are.')), h('label.radio', {}, once, h('span', {}, h('b', {}, 'All at once.'))))];
    const effects = verb === 'replay'
      ? [['info', 'Each event is sent again with its old id. A receiver that recognises ids leaves alone what it has.'], n.waiting > 0 && ['ok', `What waits behind follows in its order, each key on its own.`], ['warn', 'What fails again is parked again, with its new reason.']]
      : [['bad', `${n.relays.join(', ')} will never deliver ${n.parked === 1 ? 'this event' : `these ${num(n.parked)} events`}. Other relays are not touched.`], n.waiting > 0 && ['warn', 'What waits behind goes out at once, without the event before it. Check that the receiver can bear that.'], ['info', n.parked === 1 ? 'It stays listed as discarded, with your reason, until it is pruned.' : 'They stay listed as discarded, with your reason, until they are pruned.']];
    dialog({ title: `${verb === 'replay' ? 'Replay' : 'Discard'} ${many(n.parked, 'event')}?`, confirm: `${verb === 'replay' ? 'Replay' : 'Discard'} ${num(n.parked)}`, kind: verb === 'discard' ? 'bad' : '', reason: { hint: verb === 'replay' ? 'What was put right?' : `Why may ${n.parked === 1 ? 'it' : 'these'} be given up, and who agreed?`, optional: verb === 'replay' },
      body: [counts, how, h('h3', {}, 'What will happen'), will(effects)], cmd: choice.ids && choice.ids.length === 1 ? `dovetail parked ${verb} ${choice.ids[0]}${verb === 'discard' ? " --reason '...'" : ''}` : null,
      onconfirm: reason => run(verb, choice, n.parked, reason, how && carefully.checked, done).catch(D.fault) });
  }

  const pause = ms => new Promise(later => setTimeout(later, ms));
  // Whether the event got through: true, false, or null when that is not known after a while.
  async function outcome(id) {
    for (let i = 0; i < 30; i++) {
      await pause(500);
      const life = await D.get('events/' + id);
      const left = life.parked.filter(row => row.state === 'parked' || row.state === 'waiting');
      if (!left.length) return true;
      if (left.some(row => row.state === 'parked' && row.attempts > 0)) return false;
    }
    return null;
  }
  async function run(verb, choice, of, reason, carefully, done) {
    let after = '', count = 0;
    const problems = [];
    const turn = async limit => {
      const step = await D.post('parked/' + verb, { ...choice, reason, limit, ...(after ? { after } : {}) });
      count += step.done; after = step.next; problems.push(...step.problems);
      return step;
    };
    if (carefully) {
      const step = await turn(1), first = step.ids[0];
      D.progress(`Replaying one of ${num(of)} first`);
      const went = first ? await outcome(first) : false;
      if (went !== true) {
        D.progress('');
        toast(went === false ? 'The first one was parked again. The others stay where they are.' : 'The first one is still on its way. The others stay where they are; replay them when it is delivered.', 'warn');
        chosen.clear(); done();
        return;
      }
    } else await turn(100);
    while (after) { D.progress(`${verb === 'replay' ? 'Replaying' : 'Discarding'}: ${num(count)} of ${num(of)}`); await turn(100); }
    D.progress('');
    chosen.clear();
    if (problems.length) toast(`${many(problems.length, 'event')} could not be decided: ${problems[0].text}`, 'bad');
    toast(verb === 'replay' ? `${many(count, 'event')} ${count === 1 ? 'goes' : 'go'} out again.` : `${many(count, 'event')} discarded.`);
    done();
  }

  Object.assign(D, { decide, will });
})();
