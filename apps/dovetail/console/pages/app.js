// The frame: navigation, routes, freshness, keys, theme.
'use strict';
(() => {
  const { h, icon, button, dialog } = D;
  const app = document.getElementById('app');
  const places = [['overview', '#/', 'Overview', 'o'], ['relays', '#/relays', 'Relays', 'r'], ['parked', '#/parked', 'Parked', 'p'], ['events', '#/events', 'Events', 'e'], ['consumers', '#/consumers', 'Consumers', 'c'], ['stores', '#/stores', 'Databases & brokers', 'd'], ['reconcile', '#/reconcile', 'Reconcile', 'n'], ['audit', '#/audit', 'Audit', 'a']];
  const routes = [[/^\/$/, 'overview', []], [/^\/relays$/, 'relays', []], [/^\/relays\/([^/]+)$/, 'relay', ['name'], 'relays'], [/^\/parked$/, 'parked', []], [/^\/events$/, 'events', []], [/^\/events\/([^/]+)$/, 'event', ['id'], 'events'], [/^\/events\/([^/]+)\/edit$/, 'edit', ['id'], 'parked'], [/^\/consumers$/, 'consumers', []], [/^\/stores(?:\/([^/]+))?$/, 'stores', ['name']], [/^\/reconcile(?:\/([^/]+))?$/, 'reconcile', ['id']], [/^\/audit$/, 'audit', []]];

  const main = h('main', { id: 'main', tabindex: -1 });
  const fresh = h('span.fresh', {}), banner = h('div.banner-slot'), progress = h('div.progress', { role: 'status', 'aria-live': 'polite', hidden: true });
  const links = {};
  const badge = h('span.badge', { title: 'parked events' });
  const nav = h('nav.nav', { 'aria-label': 'Main' }, places.map(([id, href, label]) => (links[id] = h('a', { href }, icon(id), h('span', {}, label), id === 'parked' && badge))));
  const search = h('input', { type: 'search', placeholder: 'Find an id, a key, a type', 'aria-label': 'Find an event', autocomplete: 'off', spellcheck: 'false' });
  const find = h('form.find', { role: 'search', onsubmit: e => { e.preventDefault(); const text = search.value.trim(); if (text) location.hash = /^[0-9a-fA-F-]{36}$/.test(text) ? '#/events/' + text.toLowerCase() : '#/events?q=' + encodeURIComponent(text); search.blur(); } }, icon('search'), search, h('kbd', {}, '/'));
  const themeBtn = h('button.icon-btn', { type: 'button', onclick: flip });
  const menuBtn = h('button.icon-btn.menu-btn', { type: 'button', 'aria-label': 'Menu', 'aria-expanded': 'false', onclick: () => openNav() }, icon('more'));
  const openNav = (to = !document.body.classList.contains('nav-open')) => { document.body.classList.toggle('nav-open', to); menuBtn.setAttribute('aria-expanded', String(to)); };
  const account = h('p.account', {});
  const where = h('span.where', { title: 'the process that answers' }), user = h('span.user', {}), version = h('span.quiet', {});
  const frame = [h('header.top', {}, menuBtn, h('a.brand', { href: '#/', 'aria-label': 'Dovetail, overview' }, D.logo(), h('b', {}, 'Dovetail')), where, find, fresh, themeBtn, user),
    h('aside.side', {}, nav, h('div.side-foot', {}, account, h('p', {}, button('Keys', keys, 'plain'), version))), banner, main, progress];

  // ---- theme
  function dark() { const set = document.documentElement.dataset.theme; return set ? set === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches; }
  function flip() { const next = dark() ? 'light' : 'dark'; document.documentElement.dataset.theme = next; try { localStorage.setItem('dovetail-theme', next); } catch (e) { /* not kept */ } paintTheme(); }
  function paintTheme() { themeBtn.replaceChildren(icon(dark() ? 'sun' : 'moon')); themeBtn.setAttribute('aria-label', dark() ? 'Light theme' : 'Dark theme'); themeBtn.title = themeBtn.getAttribute('aria-label'); }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paintTheme);

  // ---- keys
  function keys() {
    dialog({ title: 'Keys', body: h('dl.keys', {}, [['/', 'find an event'], ['g, then ' + places.map(p => p[3]).join(' '), 'go to ' + places.map(p => p[2].toLowerCase()).join(', ')], ['t', 'light or dark'], ['← →', 'walk along a chart that has the focus'], ['Esc', 'close, leave'], ['?', 'this list']].map(([k, v]) => h('div', {}, h('dt', {}, h('kbd', {}, k)), h('dd', {}, v)))) });
  }
  let g = 0;
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
    if (e.key === 'Escape') { openNav(false); if (document.activeElement === search) search.blur(); }
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    if (Date.now() - g < 900) { const to = places.find(p => p[3] === e.key); g = 0; if (to) { location.hash = to[1]; return; } }
    if (e.key === 'g') g = Date.now();
    else if (e.key === '/') { e.preventDefault(); search.focus(); search.select(); }
    else if (e.key === '?') keys();
    else if (e.key === 't') flip();
  });

  // ---- signing in and out
  async function who() { D.user = await D.get('session'); paintUser(); }
  function paintUser() {
    const canSignOut = D.user.name !== null;
    const parts = () => [h('span', {}, h('b', {}, D.user.name || 'not signed in'), ' ', D.user.role), button(canSignOut ? 'Sign out' : 'Sign in', canSignOut ? signOut : () => login(''), 'plain')];
    user.replaceChildren(...parts());
    account.replaceChildren(...parts());
  }
  async function signOut() { await D.drop('session'); location.reload(); }
  let isOut = false;
  function login(why) {
    isOut = true;
    app.replaceChildren(D.views.login(async token => { await D.post('session', { token }); location.reload(); }, why));
    document.title = 'Sign in · Dovetail';
    const field = document.getElementById('token');
    if (field) field.focus();
  }

  // ---- pages
  let view = null, turn = 0;
  const hit = path => routes.map(([re, name, args, place]) => { const m = re.exec(path); return m && { name, place: place || name, args: Object.fromEntries(args.map((a, i) => [a, m[i + 1] && decodeURIComponent(m[i + 1])])) }; }).find(Boolean);
  D.fault = error => { if (error.status === 401) login('You are signed out.'); else D.toast(error.message, 'bad'); };
  D.progress = text => { progress.hidden = !text; progress.textContent = text; };

  async function go() {
    if (isOut) return;
    const mine = ++turn, [path, query] = (location.hash.slice(1) || '/').split('?'), params = Object.fromEntries(new URLSearchParams(query || '')), found = hit(path);
    openNav(false);
    for (const [id, link] of Object.entries(links)) { const on = found && found.place === id; link.classList.toggle('on', !!on); if (on) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current'); }
    const slow = setTimeout(() => { if (mine === turn) main.replaceChildren(D.skeleton()); }, 200);
    let next;
    try {
      next = found ? await D.views[found.name](found.args, params) : D.missing('There is no such page.', '#/', 'Overview');
      if (next.load) await next.load();
    } catch (error) {
      if (error.status === 401) { clearTimeout(slow); D.fault(error); return; }
      next = { ...D.missing(error.message, '#/', 'Overview'), title: () => 'Not now' };
    }
    clearTimeout(slow);
    if (mine !== turn) return;
    view = next;
    main.replaceChildren(view.render());
    main.dataset.shows = location.hash;
    document.title = view.title() + ' · Dovetail';
    scrollTo(0, 0);
    if (view.after) requestAnimationFrame(view.after);
  }
  // Draws the page again where it is.
  D.show = () => {
    if (!view || !main.firstElementChild || isOut) return;
    const now = view.render();
    if (now !== main.firstElementChild) D.morph(main.firstElementChild, now);
    document.title = view.title() + ' · Dovetail';
  };

  // ---- how old is what one sees
  function paintFresh() {
    const old = Math.round(D.heardFor() / 1000);
    if (!D.stale) {
      fresh.className = 'fresh';
      fresh.replaceChildren(h('i.live-dot'), h('span', {}, 'live'));
      banner.replaceChildren();
    } else {
      fresh.className = 'fresh is-old';
      fresh.replaceChildren(h('i.live-dot'), h('span', {}, `${old} s old`));
      const text = [h('b', {}, `The daemon has not answered for ${old} s. `), `You see what it said at ${D.clock(D.stale.since)} UTC. Another process may have its relays by now. Actions are off until it answers.`];
      if (banner.firstChild) banner.querySelector('p').replaceChildren(...text);
      else banner.replaceChildren(h('div.banner', { role: 'alert' }, D.state('bad'), h('p', {}, text), button('Try now', () => D.refresh())));
    }
    document.body.classList.toggle('stale', !!D.stale);
  }
  function paintFrame() {
    const parked = D.status.totals.parked;
    badge.textContent = parked || ''; badge.hidden = !parked;
    where.textContent = D.daemon.process; version.textContent = 'dovetail ' + D.daemon.version;
  }
  async function each() {
    if (isOut) return;
    paintFrame(); paintFresh();
    const mine = turn;
    if (view && view.load) await view.load();
    if (mine === turn) D.show();
  }
  function lost(error) { if (error.status === 401) login('You are signed out.'); else paintFresh(); }
  setInterval(() => { if (!isOut && D.stale) paintFresh(); }, 1000);

  document.querySelector('[data-skip]').addEventListener('click', e => { e.preventDefault(); document.getElementById('main').focus(); });
  document.addEventListener('click', e => { if (document.body.classList.contains('nav-open') && e.target === document.body) openNav(false); });
  addEventListener('hashchange', go);

  async function begin() {
    paintTheme();
    try {
      await who();
      if (D.user.role === 'nobody') { login(''); return; }
      await D.poll();
    } catch (error) {
      app.replaceChildren(h('main', { id: 'main', tabindex: -1 }, h('div.page', {}, D.empty('The daemon does not answer.', error.message, button('Try again', () => location.reload())))));
      return;
    }
    app.replaceChildren(...frame);
    paintFrame(); paintFresh();
    await go();
    D.follow(each, lost);
  }
  begin();
})();
