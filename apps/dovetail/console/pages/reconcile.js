// Compares an outbox with an inbox or a topic, and shows the report.
'use strict';
(() => {
  const { h, num, dur, stamp, many, shortId, state, pill, button, facts, meter, table } = D;

  // What is found, and what is only listed apart; as the report itself says it.
  const found = [['missing', 'published, confirmed, and not received'], ['extra', 'received, and never published here'], ['altered', 'received with another payload'], ['late', 'received later than allowed']];
  const apart = [['parked', 'waits for an operator'], ['waiting', 'not delivered yet, or behind a parked event'], ['delayed', 'waits for its time'], ['discarded', 'given up by an operator'], ['skipped', 'not wanted by the receiver'], ['forgotten', 'older than what the inbox remembers']];
  const noted = [['outside', 'published before or after the judged time'], ['unverified', 'received, and the payload is not known there'], ['repeated', 'more copies of a received event'], ['early', 'received before it was published, by two clocks that disagree'], ['foreign', 'from another publisher'], ['newer', 'published while the sides were compared']];
  const words = { running: ['info', 'running'], done: ['ok', 'done'], failed: ['bad', 'failed'], stopped: ['off', 'stopped'] };
  const receiverOf = asked => asked.topic ? `topic ${asked.topic} of ${asked.topic_store}` : `inbox of ${asked.consumer || asked.inbox}`;

  // Who could have received what: the inbox of each consumer, and each Kafka broker.
  const receivers = () => [...D.daemon.consumers.map(one => ({ value: 'inbox/' + one.name, text: `inbox of ${one.name} in ${one.to}`, inbox: one.to, consumer: one.name })),
    ...D.daemon.stores.filter(one => one.kind === 'Kafka').map(one => ({ value: 'topic/' + one.name, text: `a topic of ${one.name}`, topic_store: one.name }))];
  const outboxes = () => [...new Set([...D.daemon.relays, ...D.daemon.consumers].map(one => one.from))].filter(name => D.daemon.stores.some(one => one.name === name && !one.is_broker));

  D.views.reconcile = async ({ id }) => {
    let jobs = [], job = null;
    const load = async () => {
      ({ jobs } = await D.get('jobs'));
      const wanted = id || (jobs[0] && jobs[0].id);
      // What has ended stays as it is.
      if (!wanted || (job && job.id === wanted && job.state !== 'running')) return;
      try { job = await D.get('jobs/' + wanted); } catch (error) { if (error.status !== 404) throw error; job = null; }
    };
    const again = async () => { await load(); D.show(); };
    const form = askForm();
    const render = () => h('div.page', {}, h('header.page-head.no-print', {}, h('h1', {}, 'Reconcile'), h('p', {}, 'Compares an outbox with what its receiver has, event by event, and says what is missing, extra, altered or late.')),
      D.kept(form), id && !job ? h('p.result', {}, 'This daemon no longer has that comparison.') : null,
      job && (job.state === 'done' ? report(job) : underWay(job, again)), history(jobs, job), !jobs.length && form.tagName === 'FORM' && D.empty('Nothing has been compared yet.', 'A comparison only reads. It may take minutes; it goes on when you leave this page.'));
    return { load, title: () => 'Reconcile', render };
  };

  function askForm() {
    const list = receivers(), field = (label, input) => h('label.field.inline', {}, h('span', {}, label), input);
    const select = (name, options) => h('select', { name }, options.map(([value, text]) => h('option', { value }, text)));
    const text = (name, placeholder, size) => h('input', { type: 'text', name, placeholder, size, autocomplete: 'off', spellcheck: 'false' });
    const topic = field('Topic', text('topic', 'orders.events', 16)), to = select('receiver', list.map(one => [one.value, one.text]));
    const follow = () => { topic.hidden = !to.value.startsWith('topic/'); };
    to.addEventListener('change', follow);
    follow();
    const compare = async e => {
      e.preventDefault();
      if (!D.mayAct()) return;
      const form = e.target, { inbox, consumer, topic_store } = list.find(one => one.value === to.value), wanted = { outbox: form.outbox.value, inbox, consumer, topic_store, topic: topic_store && form.topic.value.trim(), from: form.from.value.trim(), to: form.to.value.trim(), late_after: form.late_after.value.trim() };
      try { const { id } = await D.post('reconcile', Object.fromEntries(Object.entries(wanted).filter(([, v]) => v))); location.hash = '#/reconcile/' + id; } catch (error) { D.fault(error); }
    };
    const el = list.length && outboxes().length ? h('form.filters', { onsubmit: compare }, field('Outbox', select('outbox', outboxes().map(name => [name, name]))), field('Receiver', to), topic, field('Committed from, UTC', text('from', '2026-01-30T00:00:00Z', 21)), field('to', text('to', '2026-01-31T00:00:00Z', 21)), field('Late after', text('late_after', '1m', 6)), h('button.btn.btn-primary', { type: 'submit' }, 'Compare'))
      : h('p.result', {}, 'The config of this daemon has no consumer and no Kafka broker to compare with. The command dovetail reconcile compares with the inbox of a service.');
    el.dataset.key = 'form';
    el.update = () => {};
    return el;
  }

  function underWay(job, again) {
    const stop = async () => { if (!D.mayAct()) return; try { await D.post(`jobs/${job.id}/stop`); await again(); } catch (error) { D.fault(error); } };
    if (job.state === 'running') return h('section.card', { key: 'job-' + job.id, role: 'status' }, h('div.head-row', {}, h('p', {}, h('b', {}, `${job.doing || 'beginning'}: ${num(job.read)}${job.of ? ` of about ${num(Math.max(job.of, job.read))}` : ''}`), h('span.quiet', {}, ` · ${job.asked.outbox} and the ${receiverOf(job.asked)}, begun ${D.age(D.time(job.started_at))} ago by ${job.by}`)), h('div.actions', {}, button('Stop', stop))), job.of ? meter(job.read, Math.max(job.of, job.read), 'Progress') : null);
    const [kind, word] = words[job.state];
    return h('section.alert', { key: 'job', class: 'alert is-' + kind }, state(kind), h('p', {}, h('b', {}, `The comparison of ${job.asked.outbox} and the ${receiverOf(job.asked)} has ${word}. `), job.error || ''));
  }

  const count = (r, name) => r.counts[name] || 0;
  const sums = (r, list, isFinding) => h('table.table.sum', {}, h('tbody', {}, list.filter(([name]) => isFinding || count(r, name)).map(([name, meaning]) => { const n = count(r, name); return h('tr', { class: isFinding && n ? 'row-bad' : null }, h('td', {}, state(isFinding ? n ? 'bad' : 'ok' : 'info')), h('th', { scope: 'row' }, name), h('td.r', {}, num(n)), h('td.quiet', {}, meaning)); })));
  const placeOf = f => f.published_at || f.received_at ? stamp(D.time(f.published_at || f.received_at)) : '–';

  function report(job) {
    const r = job.result, total = found.reduce((a, [name]) => a + count(r, name), 0);
    return h('article.report', { key: job.id, 'aria-label': 'Report' },
      h('header.report-head', {}, h('div', {}, h('h2', {}, state(total ? 'bad' : 'ok'), r.verdict), h('p.quiet', {}, `${num(r.counts.events)} events were published in the judged time, and ${num(r.counts.received)} received${r.receiver.kind === 'topic' ? '' : ', counting each handler'}; the longest took ${dur(r.longest_us)}.`)),
        h('div.actions.no-print', {}, button('Print', () => print()), h('a.btn', { href: `/api/v1/jobs/${job.id}/report`, download: `reconcile-${job.id}.html` }, 'Save the report'))),
      h('div.two', {}, h('div', {}, h('h3', {}, 'Found'), sums(r, found, true)), h('div', {}, h('h3', {}, 'Listed apart'), [...apart, ...noted].some(([name]) => count(r, name)) ? sums(r, [...apart, ...noted], false) : h('p.quiet', {}, 'Nothing.'))),
      r.findings.length > 0 && [h('h3', {}, 'What was found'), table(['Finding', { name: 'Event' }, 'Type', 'Key', 'Receiver', { name: 'Published', right: true }], r.findings.map(f => ({ key: f.kind + f.receiver + f.id, cells: [pill(f.kind === 'late' ? 'warn' : 'bad', f.kind), h('a.id', { href: '#/events/' + f.id, title: f.id }, shortId(f.id)), f.type || '–', f.key ? `${f.aggregate_type}/${f.key}` : '–', f.receiver, placeOf(f)] }))), total > r.findings.length && h('p.hint', {}, `${num(total - r.findings.length)} more are counted and not listed.`)],
      h('footer', {}, facts([['Outbox', `${r.outbox.store}, by ${r.relay}`], [r.receiver.kind === 'topic' ? 'Topic' : 'Inbox', `${r.receiver.name} in ${r.receiver.store}`], ['Judged', `${stamp(D.time(r.judged.from))} to ${stamp(D.time(r.judged.to))}`], ...r.limits.map(text => ['Because', D.said(text)]), ['Made', `${stamp(D.time(r.made_at))}, asked for by ${job.by}, dovetail ${r.version}`], ['Digest', h('span.id-full', {}, r.digest)]]), h('p.hint', {}, 'The digest is of the whole report. Whoever has both sides can compare again and must get the same counts.')));
  }

  function history(jobs, shown) {
    const others = jobs.filter(one => !shown || one.id !== shown.id);
    if (!others.length) return null;
    return h('section.card.flush.no-print', {}, h('div.card-head', {}, h('h2.card-title', {}, 'Earlier'), h('span.hint', {}, `the last ${many(jobs.length, 'comparison')} of this daemon`)), table(['Begun', 'What', 'State', 'By'], others.map(one => ({ key: one.id, cells: [h('a', { href: '#/reconcile/' + one.id }, stamp(D.time(one.started_at))), `${one.asked.outbox} and the ${receiverOf(one.asked)}`, pill(...words[one.state]), one.by] }))));
  }
})();
