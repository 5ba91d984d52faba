// Elements, formats, icons, dialogs. No markup is parsed: all text goes in as text.
'use strict';
const D = window.Dovetail = { views: {} };

(() => {
  const SVG = 'http://www.w3.org/2000/svg';

  function fill(el, attrs, kids) {
    for (const [name, value] of Object.entries(attrs || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
      else if (name === 'value') el.value = value;
      else if (name === 'key') el.dataset.key = value;
      else if (name === 'css') for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
      else el.setAttribute(name, value === true ? '' : value);
    }
    add(el, kids);
    return el;
  }
  function add(el, kids) {
    for (const kid of kids.flat(Infinity)) {
      if (kid === null || kid === undefined || kid === false) continue;
      el.append(kid instanceof Node ? kid : String(kid));
    }
  }
  const h = (tag, attrs, ...kids) => {
    const [name, ...classes] = tag.split('.');
    const el = document.createElement(name || 'div');
    if (classes.length) el.className = classes.join(' ');
    if (attrs instanceof Node || typeof attrs !== 'object' || Array.isArray(attrs) || attrs === null) return fill(el, {}, [attrs, ...kids]);
    return fill(el, attrs, kids);
  };
  const s = (tag, attrs, ...kids) => {
    const [name, ...classes] = tag.split('.');
    const el = document.createElementNS(SVG, name);
    if (classes.length) el.setAttribute('class', classes.join(' '));
    return fill(el, attrs, kids);
  };

  // Makes `old` look like `fresh` and keeps its elements, so that focus, selection and scroll stay. Elements with
  // different keys are replaced. One with `update` draws itself and gets the data of the fresh one.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.dataset && old.dataset.key !== fresh.dataset.key)) { old.replaceWith(fresh); return; }
    if (old.nodeType === Node.TEXT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
    if (old.update && fresh.update) { old.update(fresh.shown); return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !(name === 'open' || name === 'style')) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value && name !== 'style') old.setAttribute(name, value);
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(old.nodeName)) { if (old.type === 'checkbox') { old.checked = fresh.checked; old.indeterminate = fresh.indeterminate; } return; }
    const a = [...old.childNodes], b = [...fresh.childNodes];
    const keyed = new Map(a.filter(node => node.dataset && node.dataset.key).map(node => [node.dataset.key, node]));
    let at = old.firstChild;
    for (const next of b) {
      const same = next.dataset && next.dataset.key ? keyed.get(next.dataset.key) : at;
      if (!same) { old.insertBefore(next, at); continue; }
      if (same !== at) old.insertBefore(same, at); else at = at.nextSibling;
      morph(same, next);
    }
    while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
  }

  // An element that draws itself, in a page that is drawn again: the first time itself, then what stands for it.
  const kept = el => el.isConnected ? Object.assign(h(el.tagName.toLowerCase(), { key: el.dataset.key }), { update() {} }) : el;

  // ---- numbers, times, sizes: one way each, everywhere
  const num = n => n === null || n === undefined ? '–' : Math.round(n).toLocaleString('en-US');
  const short = n => n < 10000 ? num(n) : n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + ' k' : (n / 1e6).toFixed(n < 1e8 ? 2 : 0) + ' M';
  const per = r => r < 10 && r > 0 ? r.toFixed(1) : num(r);
  const rate = r => r === null || r === undefined ? '–' : (r < 10 && r > 0 ? r.toFixed(1) : num(r)) + '/s';
  function dur(us) {
    if (us === null || us === undefined) return '–';
    if (us < 1000) return Math.round(us) + ' µs';
    if (us < 1e6) return (us / 1e3).toFixed(us < 9950 ? 1 : 0) + ' ms';
    const sec = us / 1e6;
    if (sec < 60) return sec.toFixed(sec < 9.95 ? 1 : 0) + ' s';
    if (sec < 3600) return Math.floor(sec / 60) + ' min' + (sec < 1800 && sec % 60 >= 1 ? ' ' + Math.floor(sec % 60) + ' s' : '');
    if (sec < 86400) return Math.floor(sec / 3600) + ' h' + (sec % 3600 >= 60 ? ' ' + Math.floor(sec % 3600 / 60) + ' min' : '');
    return Math.floor(sec / 86400) + ' d' + (sec % 86400 >= 3600 ? ' ' + Math.floor(sec % 86400 / 3600) + ' h' : '');
  }
  // To the microsecond where steps are compared.
  const exact = us => us < 1e6 ? dur(us) : us < 6e7 ? (us / 1e6).toFixed(us < 1e7 ? 3 : 2) + ' s' : dur(us);
  function bytes(b) {
    if (b === null || b === undefined) return '–';
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (b >= 1024 && i < 4) { b /= 1024; i++; }
    return (i === 0 || b >= 100 ? Math.round(b) : b.toFixed(1).replace('.0', '')) + ' ' + units[i];
  }
  const two = n => String(n).padStart(2, '0');
  const clock = (ms, millis) => { const d = new Date(ms); return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}` + (millis ? '.' + String(d.getUTCMilliseconds()).padStart(3, '0') : ''); };
  const day = ms => new Date(ms).toISOString().slice(0, 10);
  const stamp = (ms, millis) => `${day(ms)} ${clock(ms, millis)} UTC`;
  const time = iso => Date.parse(iso);
  const age = ms => dur(Math.max(0, D.now() - ms) * 1000);
  const ago = ms => h('time', { datetime: new Date(ms).toISOString(), title: stamp(ms, true) }, age(ms).replace(/^(\d\d min) .*/, '$1') + ' ago');
  const many = (n, one, more) => `${num(n)} ${n === 1 ? one : more || one + 's'}`;
  // "1 waits behind", "3 wait behind"
  const behind = n => `${num(n)} ${n === 1 ? 'waits' : 'wait'} behind`;
  // What the daemon says, as part of a paragraph: whole sentences, and times as everywhere on the page.
  const said = text => text.replace(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z/g, '$1 $2 UTC').replace(/([^.!?:])$/, '$1.');
  const shortId = id => id.slice(0, 8) + '…' + id.slice(-4);

  // ---- icons: a state has a shape, a colour and a word
  const shapes = {
    ok: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M5 8.2l2.1 2.1L11 6.2' }]],
    warn: [['path', { d: 'M8 1.8l6.6 12H1.4z' }], ['path', { d: 'M8 6.2v3.6M8 11.6v.4' }]],
    bad: [['path', { d: 'M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2z' }], ['path', { d: 'M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4' }]],
    off: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M6.3 5.5v5M9.7 5.5v5' }]],
    same: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M5.5 6.5h5M5.5 9.5h5' }]],
    info: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M8 7.4v3.6M8 5v.4' }]],
    unknown: [['circle', { cx: 8, cy: 8, r: 6.5 }], ['path', { d: 'M6 6.4a2 2 0 1 1 2.9 1.8c-.7.4-.9.7-.9 1.3M8 11.4v.4' }]],
  };
  const lines = {
    overview: 'M2.5 9.5V14h4v-4.5zM9.5 2.5V14h4V2.5zM2.5 2.5V6h4V2.5z',
    relays: 'M2 5h10M9 2l3 3-3 3M14 11H4M7 8l-3 3 3 3',
    parked: 'M3 2.5h10v11H3zM6.3 11V5h2.2a1.9 1.9 0 0 1 0 3.8H6.3',
    events: 'M2 4h2M2 8h2M2 12h2M6.5 4H14M6.5 8H14M6.5 12H14',
    consumers: 'M2.5 9v4.5h11V9M8 2v7M5 6l3 3 3-3',
    stores: 'M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2',
    reconcile: 'M8 2v12M3.5 13.5h9M2 5h12M4 5L2 9.5h4zM12 5l-2 4.5h4z',
    audit: 'M3.5 2h6l3 3v9h-9zM9.5 2v3h3M5.5 8h5M5.5 11h5',
    search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3L14 14',
    sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
    moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z',
    copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
    right: 'M6 3l5 5-5 5', left: 'M10 3L5 8l5 5', down: 'M3 6l5 5 5-5',
    more: 'M2 4h12M2 8h12M2 12h12', eye: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4z',
    pause: 'M5.5 3v10M10.5 3v10', play: 'M4.5 3l8 5-8 5z',
  };
  const state = (kind, title) => s('svg.state', { class: 'state st-' + kind, viewBox: '0 0 16 16', 'aria-hidden': title ? null : 'true', role: title ? 'img' : null },
    title && s('title', {}, title), shapes[kind].map(([tag, attrs]) => s(tag, attrs)));
  const icon = name => s('svg.icon', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: lines[name] }));
  const logo = () => s('svg.logo', { viewBox: '0 0 24 24', 'aria-hidden': 'true' },
    s('path.tail', { d: 'M2 4h8v5.9l7-2.7v9.6l-7-2.7V20H2z' }), s('path.pin', { d: 'M11.4 4H22v16H11.4v-4.1l7 2.8V5.3l-7 2.8z' }));

  const pill = (kind, text) => h('span.pill', { class: 'pill is-' + kind }, state(kind), text);
  const button = (text, onclick, kind, attrs) => h('button', { type: 'button', class: 'btn' + (kind ? ' btn-' + kind : ''), onclick, ...attrs }, text);
  const mono = (text, attrs) => h('code', attrs || {}, text);
  const card = (title, ...kids) => h('section.card', {}, title && h('h2.card-title', {}, title), kids);
  const facts = pairs => h('dl.facts', {}, pairs.filter(Boolean).map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));
  const empty = (title, text, ...more) => h('div.empty', {}, h('p.empty-title', {}, title), text && h('p', {}, text), more);

  function meter(value, max, label, kind) {
    const share = Math.max(0, Math.min(1, value / max));
    return h('span.meter', { class: 'meter' + (kind ? ' is-' + kind : ''), role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': max, 'aria-valuenow': Math.round(value), 'aria-label': label },
      s('svg', { viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
        s('rect.meter-back', { width: 100, height: 4 }), s('rect.meter-fill', { width: share * 100, height: 4 })));
  }

  // The command that does the same: what is clicked here can be scripted there.
  function command(text, label) {
    const done = h('span.copied', { role: 'status' });
    return h('div.command', {}, label && h('span.command-label', {}, label), h('pre', {}, h('code', {}, text)),
      h('button.icon-btn', { type: 'button', title: 'Copy', 'aria-label': 'Copy the command', onclick: () => {
        if (navigator.clipboard) navigator.clipboard.writeText(text);
        done.textContent = 'copied'; setTimeout(() => { done.textContent = ''; }, 1500);
      } }, icon('copy')), done);
  }

  // Tables become stacked cards on a phone: each cell carries the name of its column.
  function table(columns, rows, options = {}) {
    const cols = columns.map(c => typeof c === 'string' ? { name: c } : c);
    return h('div.table-wrap', {}, h('table', { class: 'table' + (options.class ? ' ' + options.class : '') },
      options.caption && h('caption', {}, options.caption),
      h('thead', {}, h('tr', {}, cols.map(c => h('th', { scope: 'col', class: c.right ? 'r' : null, title: c.title }, c.head || c.name)))),
      h('tbody', {}, rows.map(row => h('tr', { class: row.kind ? 'row-' + row.kind : null },
        (row.cells || row).map((cell, i) => h(i === 0 && !options.noHead ? 'th' : 'td', { scope: i === 0 && !options.noHead ? 'row' : null, class: cols[i].right ? 'r' : cols[i].wide ? 'wide' : null, 'data-col': cols[i].name }, cell)))))));
  }

  // Says why not, if not. The daemon refuses it, too.
  const ranks = ['nobody', 'viewer', 'operator', 'admin'];
  function mayAct(role = 'operator') {
    if (D.stale) { toast('Actions are off until the daemon answers.', 'bad'); return false; }
    if (ranks.indexOf(D.user.role) >= ranks.indexOf(role)) return true;
    toast(`This needs the role ${role}, and ${D.user.name ? 'your role is ' + D.user.role : 'you are not signed in'}.`, 'warn');
    return false;
  }

  // ---- dialog: what, how many, what happens, why; the button says the verb and the count
  function dialog({ title, body, confirm, dismiss = 'Cancel', kind, reason, cmd, role, onconfirm }) {
    if (confirm && !mayAct(role)) return;
    const opener = document.activeElement;
    const why = reason && h('textarea', { id: 'dlg-reason', rows: 2, required: !reason.optional, placeholder: reason.hint, oninput: check });
    const go = confirm && button(confirm, () => { close(); onconfirm(why ? why.value.trim() : ''); }, kind === 'bad' ? 'danger' : 'primary');
    const el = h('dialog.dialog', { 'aria-labelledby': 'dlg-title' },
      h('h2', { id: 'dlg-title' }, title), h('div.dialog-body', {}, body,
        why && h('label.field', { for: 'dlg-reason' }, h('span', {}, reason.optional ? 'Reason, kept in the audit' : 'Reason, needed, kept in the audit'), why),
        cmd && command(cmd, 'the same by command line')),
      h('div.dialog-foot', {}, button(confirm ? dismiss : 'Close', close), go));
    function check() { if (go && why && !reason.optional) go.disabled = why.value.trim().length < 3; }
    function close() { el.close(); el.remove(); if (opener && opener.focus) opener.focus(); }
    el.addEventListener('cancel', e => { e.preventDefault(); close(); });
    document.body.append(el);
    check();
    el.showModal();
    return { el, close };
  }

  function toast(text, kind = 'ok') {
    let box = document.querySelector('.toasts');
    if (!box) document.body.append(box = h('div.toasts', { role: 'status', 'aria-live': 'polite' }));
    const el = h('div.toast', { class: 'toast is-' + kind }, state(kind), h('span', {}, text));
    box.append(el);
    setTimeout(() => el.remove(), 6000);
  }

  Object.assign(D, { h, s, morph, kept, mayAct, time, num, short, per, rate, dur, exact, bytes, clock, day, stamp, age, ago, many, behind, said, shortId, state, icon, logo, pill, button, mono, card, facts, empty, meter, command, table, dialog, toast });
})();
