// Events with search, one event, and a changed copy of it.
'use strict';
(() => {
  const { h, s, num, dur, exact, bytes, clock, stamp, age, many, shortId, state, icon, pill, button, card, facts, table, dialog, toast, will } = D;
  const kinds = { delivered: 'ok', pending: 'info', unread: 'info', waiting: 'warn', parked: 'bad', discarded: 'off', skipped: 'off', delayed: 'info', unknown: 'warn' };
  const worst = ['parked', 'waiting', 'pending', 'unread', 'delayed', 'discarded', 'delivered', 'skipped'];
  const isId = text => /^[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}$/.test(text);
  const keyOf = one => one.key ? `${one.aggregate_type}/${one.key}` : one.aggregate_type;
  const stateOf = states => worst.find(w => states.some(one => one.state === w)) || (states[0] && states[0].state) || 'unread';

  // ---- search
  const times = [['', 'any time'], ['5', 'last 5 min'], ['60', 'last hour'], ['1440', 'last 24 h']];
  const since = minutes => minutes ? new Date(D.now() - minutes * 60000).toISOString() : '';
  const link = params => { const text = new URLSearchParams(Object.entries(params).filter(([, v]) => v)).toString(); return '#/events' + (text ? '?' + text : ''); };

  D.views.events = async (_, params) => {
    let found = { events: [], next: null, looked_back_to: null, problems: [] }, at = 0;
    const ask = after => D.get('events', { q: params.q, state: params.state, store: params.store, box: params.box, from: since(params.minutes), after, limit: 50 });
    const load = async () => {
      // A page that somebody has gone through stays as it is.
      if (at && (params.after || Date.now() - at < 5000 || params.q || params.state)) return;
      at = Date.now();
      found = await ask(params.after);
    };
    // A search goes on by itself until it has a page, is at the end, or is stopped.
    const here = location.hash, isSearch = params.q || params.state;
    let isLooking = false;
    const further = async () => {
      isLooking = true;
      while (isLooking && found.next && found.events.length < 50 && location.hash === here && !document.hidden) {
        const more = await ask(found.next);
        found = { ...more, events: [...found.events, ...more.events] };
        D.show();
      }
      isLooking = false;
      if (location.hash === here) D.show();
    };
    const look = () => further().catch(error => { isLooking = false; D.fault(error); });
    const render = () => {
      const go = change => { location.hash = link({ ...params, after: '', ...change }); };
      const select = (name, label, list) => h('label.field.inline', {}, h('span', {}, label), h('select', { name, onchange: e => go({ [name]: e.target.value }) }, list.map(([v, t]) => h('option', { value: v, selected: String(params[name] || '') === String(v) }, t))));
      const stores = D.daemon.stores.filter(one => !one.is_broker).map(one => [one.name, one.name]);
      const form = h('form.filters', { role: 'search', onsubmit: e => { e.preventDefault(); const text = e.target.q.value.trim(); if (isId(text)) location.hash = '#/events/' + text.toLowerCase(); else go({ q: text }); } },
        h('label.field.inline.grow', {}, h('span', {}, 'Id, key, type or topic'), h('input', { type: 'search', name: 'q', value: params.q || '', placeholder: 'order/48213, OrderPlaced or an id', autocomplete: 'off', spellcheck: 'false' })),
        select('state', 'State', [['', 'all'], ...['pending', 'delivered', 'parked', 'waiting', 'delayed', 'skipped', 'discarded'].map(k => [k, k])]), select('store', 'Store', [['', 'all'], ...stores]), select('box', 'Box', [['', 'outbox'], ['mailbox', 'mailbox']]), select('minutes', 'Time', times), h('button.btn', { type: 'submit' }, 'Find'));
      const isDelayed = params.state === 'delayed', filtered = ['q', 'state', 'store', 'box', 'minutes', 'after'].some(k => params[k]);
      return h('div.page', {}, h('header.page-head', {}, h('h1', {}, 'Events')), form,
        found.problems.map(p => h('section.alert.is-bad', { key: p.store }, state('bad'), h('p', {}, h('b', {}, `The store ${p.store} does not answer: `), p.text))),
        h('p.result', { role: 'status' }, found.events.length ? [h('b', {}, many(found.events.length, 'event')), isDelayed ? ', in the order of publishing.' : ', newest first.'] : isLooking ? 'Nothing found yet.' : 'No event matches.', found.looked_back_to && ` Looked back to ${stamp(D.time(found.looked_back_to))}${isLooking ? ', and still looking' : ''}.`, isLooking && [' ', button('Stop', () => { isLooking = false; }, 'plain')], filtered && [' ', h('a', { href: '#/events' }, 'Clear all filters')]),
        found.events.length ? table(['Event', 'Key', 'State', { name: 'Store and relay' }, { name: isDelayed ? 'Due' : 'Committed', right: true }, { name: 'Size', right: true }],
          found.events.map(e => { const word = stateOf(e.states); return { key: e.store + e.id, cells: [h('a', { href: '#/events/' + e.id }, h('b', {}, e.type), h('span.route.id', {}, shortId(e.id))), h('a.plain', { href: link({ q: keyOf(e), store: params.store }), title: 'All events of this key' }, keyOf(e)), pill(kinds[word] || 'info', word), h('span', {}, e.store, h('span.quiet', {}, ' ' + e.states.map(one => one.relay).filter(Boolean).sort().join(', '))), timeCell(e.deliver_at || e.created_at, e.delayed_because), bytes(e.payload_bytes)] }; }))
          : D.empty(isLooking ? 'Looking.' : 'Nothing here.', isLooking ? 'Older events are looked at, some thousand at a time.' : found.next ? 'The search goes further back when you ask for more.' : filtered ? `Try ${params.minutes ? 'a longer time, or ' : ''}the whole id, or the whole key such as order/48213.` : 'The first event appears here when it is committed.'),
        h('nav.pager', { 'aria-label': 'Pages' }, params.after && h('a.btn', { href: link({ ...params, after: '' }) }, 'Newest'), found.next && !isLooking && (isSearch && found.events.length < 50 ? button('Search further back', look) : h('a.btn', { href: link({ ...params, after: found.next }) }, isDelayed ? 'More' : 'Older'))));
    };
    return { load, title: () => 'Events', render, after: () => { if (isSearch) look(); } };
  };

  const timeCell = (iso, why) => [h('time', { datetime: iso, title: stamp(D.time(iso), true) }, stamp(D.time(iso))), why && h('span.route', {}, why)];

  // ---- one event: its life, as the daemon tells it
  const stepsOf = e => { const people = new Set(e.audit.map(row => row.who)); return e.steps.map(x => ({ ...x, at: x.at && D.time(x.at), isDecision: people.has(x.actor) })); };
  // After the commit, or after the first step where nobody knows the commit.
  const after = (x, first) => { const us = x.at_us === null ? (x.at - first.at) * 1000 : x.at_us; return us < 0 ? '−' + exact(-us) : '+' + exact(us); };

  D.views.event = async ({ id }) => {
    let e = null, at = 0;
    const load = async () => { if (Date.now() - at < 3000) return; at = Date.now(); e = await D.get('events/' + id); };
    try { await load(); } catch (error) { if (error.status === 404 || error.status === 400) return D.missing(error.message, '#/events', 'All events'); throw error; }
    const again = async () => { at = 0; await load(); D.show(); };
    const payload = payloadCard(id, again);
    const render = () => {
      const head = e.places.find(row => row.box === 'outbox') || e.places[0] || e.parked[0] || { type: 'Event', aggregate_type: '', key: '' };
      const word = e.state, parked = e.parked.filter(row => row.state === 'parked' && row.head), steps = stepsOf(e), timed = steps.filter(x => x.at);
      return h('div.page', {}, h('header.page-head', {}, h('nav.crumbs', { 'aria-label': 'Path' }, h('a', { href: '#/events' }, 'Events'), ' / ', h('a', { href: link({ q: keyOf(head) }) }, keyOf(head)), ' / '),
        h('div.head-row', {}, h('h1', {}, head.type, h('span.h1-sub', {}, keyOf(head))), pill(kinds[word] || 'info', word), parked.length > 0 && h('div.actions', { key: 'actions' }, h('a.btn', { href: `#/events/${id}/edit` }, 'Edit and replay…'), button('Discard…', () => D.decide('discard', { ids: [id] }, again)), button('Replay…', () => D.decide('replay', { ids: [id] }, again), 'primary')), word === 'delayed' && h('div.actions', { key: 'cancel' }, button('Cancel…', () => cancel(id, again)))),
        h('p', {}, e.sentence)),
        e.problems.map(p => h('section.alert.is-bad', { key: p.store }, state('bad'), h('p', {}, h('b', {}, `The store ${p.store} does not answer: `), p.text))),
        timed.length > 1 && h('section.card.flush.lanes-card', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Its life'), h('span.hint', {}, 'what the stores recorded; time runs to the right, long waits are folded')), swimlanes(timed)),
        h('div.event-cols', {},
          h('div.stack', {}, h('section.card', {}, h('h2.card-title', {}, 'Step by step'), timeline(steps)), keyCard(e, id, head), placesCard(e), inboxCard(e)),
          h('div.stack', {}, explainCard(e), D.kept(payload), factsCard(id, head))));
    };
    return { load, title: () => 'Event ' + shortId(id), render };
  };

  function timeline(steps) {
    const first = steps.find(x => x.at);
    let last = null;
    return h('ol.timeline', {}, steps.map(x => {
      const gap = x.at && last ? x.at - last.at : 0, isFirst = x === first;
      if (x.at) last = x;
      const time = x.at ? [h('b', {}, isFirst ? clock(x.at) : after(x, first)), h('time', { datetime: new Date(x.at).toISOString(), title: stamp(x.at, true) }, clock(x.at, true))] : [h('b', {}, 'no time'), h('span.quiet', {}, 'not recorded')];
      return [gap > 1000 && h('li.gap-row', {}, dur(gap * 1000) + ' later'), h('li', {}, h('span.tl-time', {}, time), state(x.kind), h('span.tl-text', {}, h('b', {}, x.what), ' ', h('span.tl-actor', {}, x.actor), x.attempt && h('span.tl-actor', {}, `, try ${num(x.attempt)}`), h('span.quiet', {}, D.said(x.detail).replace(/\.$/, '')) ))];
    }));
  }
  const explainCard = e => e.explain.length > 0 && card('Why', h('dl.explain', {}, e.explain.map(one => h('div', {}, h('dt', {}, one.title), h('dd', {}, D.said(one.text))))));
  function keyCard(e, id, head) {
    if (!e.of_its_key) return null;
    const { before, behind } = e.of_its_key;
    const row = (one, isHere) => { const word = isHere ? e.state : stateOf(one.states); return { key: one.id, kind: isHere ? 'here' : '', cells: [isHere ? h('b', {}, one.type, h('span.quiet', {}, ' this event')) : h('a', { href: '#/events/' + one.id }, one.type), h('span.id', { title: one.id }, shortId(one.id)), pill(kinds[word] || 'info', word), timeCell(one.created_at)] }; };
    return h('section.card.flush', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Its key, in order'), h('span.hint', {}, before.length + behind.length ? 'the nearest ones' : 'none near it in the outbox')), table(['Event', 'Id', 'State', { name: 'Committed', right: true }], [...before.map(one => row(one)), row({ ...head, id }, true), ...behind.map(one => row(one))]));
  }
  function cancel(id, done) {
    dialog({ title: 'Cancel this event?', confirm: 'Cancel the event', dismiss: 'Keep it', kind: 'bad', reason: { hint: 'Why is it no longer wanted?' }, cmd: `dovetail events cancel ${id} --reason '...'`, body: [h('h3', {}, 'What will happen'), will([['bad', 'It is deleted before its time. Nobody gets it.'], ['info', 'The audit keeps its id, your name and the reason.']])],
      onconfirm: async reason => { try { await D.post(`events/${id}/cancel`, { reason }); toast('The event is cancelled.'); await done(); } catch (error) { D.fault(error); } } });
  }
  function placesCard(e) {
    if (!e.places.length) return null;
    return h('section.card.flush', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Where it is')), table(['Store', 'Box', 'State', 'Relay', 'Topic', { name: 'Position', right: true }], e.places.map(row => ({ key: row.store + row.box + row.relay, cells: [row.store, row.box, pill(kinds[row.state] || 'info', row.state), row.relay || h('span.quiet', {}, 'none'), row.topic || h('span.quiet', {}, 'by the relay'), num(row.position)] }))));
  }
  function inboxCard(e) {
    if (!e.inbox.length) return null;
    return h('section.card.flush', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Consumers that know it')), table(['Consumer', 'Decision', { name: 'When', right: true }, { name: 'Failed attempts', right: true }], e.inbox.map(row => ({ key: row.store + row.consumer, cells: [row.consumer, row.queued ? pill('info', row.held_until ? 'a worker has it' : 'in the queue') : row.applied_at ? pill('ok', 'applied') : row.held_until ? pill('info', 'claim held') : pill('warn', 'tried'), row.applied_at ? stamp(D.time(row.applied_at)) : '–', num(row.attempts)] }))));
  }
  const factsCard = (id, head) => card('Facts', facts([['Id', h('span.id-full', {}, id)], head.created_at && ['Committed', stamp(D.time(head.created_at), true)], head.topic && ['Topic', head.topic], head.version ? ['Version', num(head.version)] : null, head.payload_bytes !== undefined && ['Payload', `${bytes(head.payload_bytes)}${head.content_type ? ' of ' + head.content_type : ''}`], ...Object.entries(head.headers || {}).map(([k, v]) => [k, h('span.id-full', {}, v)])]));

  const shown = value => { if (value.payload === undefined) return value.payload_base64; try { return JSON.stringify(JSON.parse(value.payload), null, 2); } catch (e) { return value.payload; } };
  const reveal = (id, reason) => D.post(`events/${id}/reveal`, { reason });

  // Draws itself: a page that is drawn again neither hides nor shows it.
  function payloadCard(id, again) {
    const body = h('div'), el = card('Payload', body);
    const hidden = () => body.replaceChildren(h('div.veil', {}, icon('eye'), h('p', {}, 'Hidden. Who looks is written down.'), button('Reveal the payload…', ask)));
    const ask = () => dialog({ title: 'Reveal the payload?', confirm: 'Reveal', reason: { hint: 'What are you looking for?' }, body: h('p', {}, 'Your name, the time and the reason go into the audit. It is hidden again when you leave this page.'), cmd: `dovetail events show ${id} --payload`,
      onconfirm: async reason => { try { const value = await reveal(id, reason); body.replaceChildren(h('pre.payload', { tabindex: 0, role: 'region', 'aria-label': 'Payload' }, shown(value)), h('p.hint', {}, value.payload === undefined ? 'Not UTF-8; shown as base64.' : ''), button('Hide', hidden, 'plain')); again(); } catch (error) { D.fault(error); } } });
    el.dataset.key = 'payload';
    el.update = () => {};
    hidden();
    return el;
  }

  // Who did what when: one row for each actor, one mark for each step, folds where nothing happened for long.
  function swimlanes(steps) {
    const box = h('div.swim', { role: 'img', 'aria-label': 'The life of this event as a picture; the list below says the same in words' });
    const draw = width => {
      const list = box.shown, actors = [...new Set(list.map(x => x.actor))];
      const left = 150, top = 44, row = 38, right = 44, height = top + actors.length * row + 8;
      const stamps = [...new Set(list.map(x => x.at))].sort((a, b) => a - b), pos = new Map(), folds = [];
      let at = 0;
      stamps.forEach((t, i) => { if (i) { const gap = t - stamps[i - 1]; at += 40 + 13 * Math.log10(1 + gap) + (gap > 500 ? 26 : 0); if (gap > 500) folds.push([stamps[i - 1], t]); } pos.set(t, at); });
      const scale = Math.min(3.6, (width - left - right - 20) / Math.max(at, 1)), x = t => left + 20 + pos.get(t) * scale, y = a => top + actors.indexOf(a) * row + row / 2;
      const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
      actors.forEach((a, i) => svg.append(s('rect', { class: 'swim-row' + (i % 2 ? ' odd' : ''), x: 0, y: top + i * row, width, height: row }), s('text.swim-name', { x: 16, y: y(a) + 4 }, a.length > 20 ? a.slice(0, 19) + '…' : a)));
      for (const [a, b] of folds) { const m = (x(a) + x(b)) / 2; svg.append(s('path.fold', { d: `M${m - 4} ${top - 6}v${height - top}M${m + 4} ${top - 6}v${height - top}` }), s('text.fold-text', { x: m, y: 12, 'text-anchor': 'middle' }, dur((b - a) * 1000))); }
      let lastEnd = -99;
      stamps.forEach((t, i) => { const text = i ? after(list.find(o => o.at === t), list[0]) : clock(t), px = x(t), half = text.length * 3.1; const isFree = px - half >= lastEnd; if (isFree) { lastEnd = px + half + 4; svg.append(s('text.axis', { x: px, y: top - 12, 'text-anchor': 'middle' }, text)); } svg.append(s('line.swim-tick', { x1: px, x2: px, y1: top - (isFree ? 7 : 5), y2: top })); });
      const ends = {};
      list.forEach((step, i) => {
        const before = list.slice(0, i).reverse().find(o => o.actor === step.actor);
        if (before) svg.append(s('line', { class: 'swim-bar st-' + step.kind, x1: x(before.at), x2: x(step.at), y1: y(step.actor), y2: y(step.actor) }));
        // Everything begins with the commit; what a person did does not follow from it.
        if (!before && !step.isDecision && list[0].what === 'committed' && step.actor !== list[0].actor) { const x1 = x(list[0].at), x2 = x(step.at), m = (x1 + x2) / 2; svg.append(s('path.swim-link', { d: `M${x1} ${y(list[0].actor)}C${m} ${y(list[0].actor)} ${m} ${y(step.actor)} ${x2} ${y(step.actor)}` })); }
      });
      list.forEach(step => {
        const mark = state(step.kind), px = x(step.at), py = y(step.actor), half = step.what.length * 2.9;
        mark.setAttribute('x', px - 7); mark.setAttribute('y', py - 7); mark.setAttribute('width', 14); mark.setAttribute('height', 14);
        svg.append(s('circle.swim-hole', { cx: px, cy: py, r: 8 }), mark);
        if ((ends[step.actor] || -99) < px - half) { ends[step.actor] = px + half + 3; svg.append(s('text', { class: 'swim-text st-' + step.kind, x: Math.min(px, width - half - 4), y: py - 10, 'text-anchor': 'middle' }, step.what)); }
      });
      box.replaceChildren(svg);
    };
    box.shown = steps;
    box.update = next => { if (JSON.stringify(next) !== JSON.stringify(box.shown)) { box.shown = next; box.redraw(); } };
    return D.sized(box, draw);
  }

  // ---- edit and replay as a new event
  function diff(a, b) {
    const n = a.length, m = b.length;
    if (n * m > 4e6) return [...a.map(t => ['-', t]), ...b.map(t => ['+', t])]; // too large to compare
    const L = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)), out = [];
    for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) L[i][j] = a[i] === b[j] ? L[i + 1][j + 1] + 1 : Math.max(L[i + 1][j], L[i][j + 1]);
    let i = 0, j = 0;
    while (i < n || j < m) { if (i < n && j < m && a[i] === b[j]) { out.push([' ', a[i]]); i++; j++; } else if (i < n && (j === m || L[i + 1][j] >= L[i][j + 1])) out.push(['-', a[i++]]); else out.push(['+', b[j++]]); }
    return out;
  }
  // Version 7: it begins with the time.
  function newId() {
    const b = crypto.getRandomValues(new Uint8Array(16));
    let t = Date.now();
    for (let i = 5; i >= 0; i--) { b[i] = t % 256; t = Math.floor(t / 256); }
    b[6] = (b[6] & 15) | 112; b[8] = (b[8] & 63) | 128;
    const text = [...b].map(x => x.toString(16).padStart(2, '0')).join('');
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`;
  }

  D.views.edit = async ({ id }) => {
    let e;
    try { e = await D.get('events/' + id); } catch (error) { if (error.status === 404 || error.status === 400) return D.missing(error.message, '#/parked', 'Parked'); throw error; }
    const head = e.places.find(row => row.box === 'outbox');
    if (!head) return D.missing('No outbox of this daemon has this event, so it cannot go out again with another payload.', '#/events/' + id, 'The event');
    const parked = e.parked.filter(row => row.state === 'parked' && row.head);
    const body = h('div.stack'), el = h('div.page', {}, h('header.page-head', {}, h('nav.crumbs', { 'aria-label': 'Path' }, h('a', { href: '#/parked' }, 'Parked'), ' / ', h('a', { href: '#/events/' + id }, keyOf(head)), ' / '), h('h1', {}, 'Edit and replay'), h('p', {}, 'What was committed is never changed: a new event goes out instead.')),
      parked.map(row => h('section.alert.is-warn', {}, state('warn'), h('p', {}, h('b', {}, `Parked by ${row.relay} because `), row.reason))), body);
    el.update = () => {};
    const ask = () => dialog({ title: 'Reveal the payload?', confirm: 'Reveal', reason: { hint: 'Why is it changed?' }, body: h('p', {}, 'To edit it you have to see it. Your name, the time and the reason go into the audit.'), onconfirm: async reason => { try { edit(await reveal(id, reason)); } catch (error) { D.fault(error); } } });
    body.replaceChildren(h('div.veil', {}, icon('eye'), h('p', {}, 'The payload is hidden. Who looks is written down.'), button('Reveal and edit…', ask)));
    function edit(value) {
      if (value.payload === undefined) { body.replaceChildren(D.empty('This payload is not text.', 'Only text can be edited here.')); return; }
      const old = shown(value), isJson = /json/.test(head.content_type), next = newId();
      const area = h('textarea.code', { rows: Math.min(30, Math.max(10, old.split('\n').length + 1)), spellcheck: 'false', value: old, 'aria-label': 'New payload', oninput: draw });
      const out = h('div.diff', { role: 'region', 'aria-label': 'Difference', tabindex: 0 }), says = h('p.result', { role: 'status' });
      const effects = [['info', 'A new event with a new id goes into the outbox. It has the header dovetail-replaces with the old id.'], ['warn', 'It comes after all events of its key that are there now, and every relay of this outbox delivers it.'], parked.length > 0 && ['off', `The old event is discarded for ${parked.map(row => row.relay).join(', ')}.`], parked.some(row => row.behind) && ['warn', 'What waits behind the old event goes out before the new one.']];
      const go = button('Replay as a new event…', () => dialog({ title: 'Replay as a new event?', confirm: 'Replay as a new event', reason: { hint: 'What did you change, and why?' }, body: [h('h3', {}, 'What will happen'), will(effects)],
        onconfirm: async reason => { try { const done = await D.post(`events/${id}/edit`, { id: next, payload: area.value, reason }); toast('The new event is in the outbox.'); location.hash = '#/events/' + done.id; } catch (error) { D.fault(error); } } }), 'primary');
      function draw() {
        const rows = diff(old.split('\n'), area.value.split('\n')), changes = rows.filter(r => r[0] !== ' ').length;
        let wrong = '';
        if (isJson) try { JSON.parse(area.value); } catch (x) { wrong = x.message; }
        go.disabled = !!wrong || !changes;
        says.replaceChildren(wrong ? h('span.bad-text', {}, 'This is not JSON: ' + wrong) : changes ? `${many(rows.filter(r => r[0] === '-').length, 'line')} out, ${many(rows.filter(r => r[0] === '+').length, 'line')} in.` : 'Nothing is changed yet.');
        out.replaceChildren(...rows.map(([k, t]) => h('div', { class: k === '+' ? 'add' : k === '-' ? 'del' : 'same' }, h('span', {}, k), k !== ' ' && h('span.sr', {}, k === '+' ? 'added: ' : 'removed: '), t)));
      }
      draw();
      body.replaceChildren(h('div.two', {}, card('New payload', area), card('Difference to what was committed', out)), h('div.form-foot', {}, says, h('a.btn', { href: '#/events/' + id }, 'Cancel'), go));
    }
    return { title: () => 'Edit ' + keyOf(head), render: () => el };
  };
})();
