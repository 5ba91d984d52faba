// The daemon: calls, and what is asked again and again while somebody looks.
'use strict';
(() => {
  const EVERY = 2000;

  class Refused extends Error {
    constructor(status, code, text) { super(text); this.status = status; this.code = code; }
  }

  async function call(method, path, body) {
    const options = { method, credentials: 'same-origin', cache: 'no-store' };
    if (method !== 'GET') { options.headers = { 'Content-Type': 'application/json' }; options.body = JSON.stringify(body || {}); }
    const answer = await fetch('/api/v1/' + path, options);
    const json = await answer.json().catch(() => null);
    if (answer.ok) return json;
    const error = (json && json.error) || { code: 'answer', text: `the daemon answered ${answer.status}` };
    throw new Refused(answer.status, error.code, error.text);
  }
  const query = params => {
    const text = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== null && v !== '')).toString();
    return text ? '?' + text : '';
  };
  const get = (path, params) => call('GET', path + query(params));
  const post = (path, body) => call('POST', path, body);

  // What every page needs. `status` and `daemon` are of the last poll that succeeded.
  Object.assign(D, { get, post, drop: path => call('DELETE', path), Refused, user: { name: null, role: 'nobody' }, status: null, daemon: null, stale: null });
  let offset = 0; // of the daemon's clock
  let heardAt = 0;
  D.now = () => Date.now() + offset;
  D.heardFor = () => Date.now() - heardAt;

  async function poll() {
    const [status, daemon] = await Promise.all([get('status'), get('daemon')]);
    offset = D.time(daemon.time) - Date.now();
    heardAt = Date.now();
    D.stale = null;
    Object.assign(D, { status, daemon });
  }

  // Calls `each` after every poll. It rests while the tab is hidden.
  function follow(each, lost) {
    let timer = 0, running = false;
    const again = () => { clearTimeout(timer); if (!document.hidden) timer = setTimeout(turn, EVERY); };
    async function turn() {
      if (running) return;
      running = true;
      try {
        await poll();
        await each();
      } catch (error) {
        if (error instanceof Refused && error.status !== 401 && error.status !== 503) D.toast(error.message, 'bad');
        else { if (!D.stale) D.stale = { since: heardAt, why: error }; lost(error); }
      } finally {
        running = false;
        again();
      }
    }
    document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else turn(); });
    D.refresh = turn;
    again();
  }

  // ---- what the status says, by name
  const stores = () => D.status.stores;
  // Every relay with the store that keeps its state. A consumer that reads an outbox is a relay of the same name.
  const relays = () => stores().flatMap(store => store.relays.map(relay => ({ ...relay, store: store.name })));
  const relay = name => relays().find(one => one.name === name);
  const configured = name => D.daemon.relays.find(one => one.name === name) || D.daemon.consumers.find(one => one.name === name);
  const inbox = (store, name) => { const home = stores().find(one => one.name === store); return home && home.consumers.find(one => one.name === name); };
  const queue = (store, name) => { const home = stores().find(one => one.name === store); return home && home.queues.find(one => one.consumer === name); };
  // A problem that says that this store does not answer.
  const isAway = name => D.status.problems.find(p => (/^(database-|disk-full|pooler-down)/.test(p.kind) && p.where.store === name && !p.where.relay && !p.where.consumer)
    || (p.kind === 'broker-away' && p.title.split(' ').includes(name)));

  // ---- a state: kind, and a word
  const words = { delivering: ['ok', 'delivering'], standby: ['ok', 'stands by'], unknown: ['ok', 'running'], backing_off: ['bad', 'backing off'], halted: ['bad', 'halted'], stopped: ['off', 'not running'], paused: ['off', 'paused'], draining: ['off', 'draining'], drained: ['off', 'drained'] };
  const severities = { error: 'bad', warning: 'warn', note: 'info', ok: 'ok' };
  function stateOf(one) {
    if (one.error) return ['bad', 'error'];
    const [kind, word] = words[one.state] || ['info', one.state];
    if (one.state === 'stopped' && (one.pending || one.waiting)) return ['bad', 'not running'];
    if (kind === 'ok' && one.parked) return ['warn', 'some parked'];
    return [kind, word];
  }

  Object.assign(D, { poll, follow, relays, relay, configured, inbox, queue, isAway, stateOf, severities });
})();
