// The pipeline as a picture: databases, relays, targets, consumers, handlers. Wide: five columns. Narrow: a tree of rails.
'use strict';
(() => {
  const { h, s } = D;
  const heads = ['Databases', 'Relays', 'Targets', 'Consumers', 'Handlers'];

  // nodes: [{ id, col, title, kind, line, state, href, label }], edges: [{ from, to, state, rate, text }]
  function pipeline(graph) {
    const box = h('div.pipeline', { role: 'group', 'aria-label': 'Pipeline: databases, relays, targets, consumers, handlers' });
    const refs = {};
    D.sized(box, width => {
      for (const key of Object.keys(refs)) delete refs[key];
      box.replaceChildren(width < 720 ? narrow(graph, width, refs) : wide(graph, width, refs));
      reach(box, graph);
    });
    // From second to second only texts change; with another shape or state it is drawn again.
    const shape = g => JSON.stringify([g.nodes.map(n => [n.id, n.col, n.state, n.title, n.kind]), g.edges.map(e => [e.from, e.to, e.state, !!e.text, Math.round(Math.log2(1 + (e.rate || 0)))])]);
    box.shown = graph;
    box.update = next => {
      const isSame = shape(graph) === shape(next);
      graph = next;
      if (!isSame) { const at = document.activeElement, id = box.contains(at) && at.getAttribute('data-id'); box.redraw(); if (id) { const again = [...box.querySelectorAll('a.node')].find(a => a.getAttribute('data-id') === id); if (again) again.focus(); } return; }
      for (const node of next.nodes) if (refs[node.id]) { refs[node.id].textContent = clip(node.line, refs.fit || 60); refs[node.id].closest('a').setAttribute('aria-label', `${node.role} ${node.title}: ${node.label || node.line}`); }
      for (const edge of next.edges) { const t = refs[edge.from + '>' + edge.to]; if (t && edge.text) t.textContent = edge.text; }
    };
    return box;
  }

  function link(node, ...kids) {
    return s('a', { href: node.href, class: `node st-${node.state}`, 'data-id': node.id, 'aria-label': `${node.role} ${node.title}: ${node.label || node.line}` }, kids);
  }

  function wide(graph, width, refs) {
    const nw = Math.min(180, Math.max(132, (width - 4 * 64) / 5)), nh = 52, row = 66, top = 30;
    const cols = heads.map((_, c) => graph.nodes.filter(n => n.col === c));
    const rows = Math.max(...cols.map(c => c.length)), height = top + rows * row;
    const pos = {};
    const parents = id => graph.edges.filter(e => e.to === id).map(e => pos[e.from]).filter(Boolean);
    const x = c => Math.round(c * (width - nw - 2) / 4) + 1;
    // Relays set the rows; every other column stands in the middle of what it is joined to, without overlap.
    cols[1].forEach((n, i) => { pos[n.id] = { x: x(1), y: top + i * row }; });
    const settle = (list, c, wish) => {
      const ys = list.map(wish);
      for (let i = 1; i < ys.length; i++) ys[i] = Math.max(ys[i], ys[i - 1] + row);
      const over = (ys[ys.length - 1] || 0) - (top + (rows - 1) * row);
      if (over > 0) { ys[ys.length - 1] -= over; for (let i = ys.length - 2; i >= 0; i--) ys[i] = Math.min(ys[i], ys[i + 1] - row); }
      list.forEach((n, i) => { pos[n.id] = { x: x(c), y: Math.round(ys[i]) }; });
    };
    const mean = list => list.reduce((a, p) => a + p.y, 0) / (list.length || 1);
    settle(cols[0], 0, n => mean(graph.edges.filter(e => e.from === n.id).map(e => pos[e.to]).filter(Boolean)));
    for (const c of [2, 3, 4]) settle(cols[c], c, n => mean(parents(n.id)));

    const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}` });
    heads.forEach((text, c) => svg.append(s('text.col-head', { x: x(c) + 1, y: 14 }, text), s('text.col-count', { x: x(c) + nw - 2, y: 14, 'text-anchor': 'end' }, cols[c].length)));
    const under = s('g'), labels = s('g');
    for (const e of graph.edges) {
      const a = pos[e.from], b = pos[e.to], x1 = a.x + nw, y1 = a.y + nh / 2, x2 = b.x, y2 = b.y + nh / 2, m = (x1 + x2) / 2;
      const d = `M${x1} ${y1}C${m} ${y1} ${m} ${y2} ${x2} ${y2}`, id = e.from + '>' + e.to;
      const weight = e.rate ? Math.max(1.25, Math.min(5, .8 + Math.log10(1 + e.rate) * 1.25)) : 1.25;
      const line = s('path', { class: `edge st-${e.state}`, d, 'data-id': id, 'stroke-width': weight });
      under.append(line);
      if (e.rate > 0 && e.state === 'ok') under.append(s('path', { class: `flow ${e.rate > 500 ? 'fast' : e.rate > 20 ? 'mid' : 'slow'}`, d, 'data-id': id, 'stroke-width': Math.max(1.5, weight * .7) }));
      if (e.text) labels.append(refs[id] = s('text', { class: `edge-text st-${e.state}`, x: e.state === 'bad' ? m : x1 + 7, y: e.state === 'bad' ? (y1 + y2) / 2 - 6 : y2 < y1 - 4 ? y1 + 15 : y1 - 7, 'text-anchor': e.state === 'bad' ? 'middle' : 'start', 'data-id': id }, e.text));
      if (e.state === 'bad') labels.append(s('path.cut', { d: `M${m - 4} ${(y1 + y2) / 2 - 4 + 4}l8 8m0 -8l-8 8`, 'data-id': id }));
    }
    svg.append(under, labels);
    for (const n of graph.nodes) {
      const p = pos[n.id];
      const mark = D.state(n.state); mark.setAttribute('x', nw - 24); mark.setAttribute('y', 8); mark.setAttribute('width', 15); mark.setAttribute('height', 15);
      const fit = Math.floor((nw - 20) / 5.75);
      refs.fit = fit;
      const room = nw - 40 - n.kind.length * 5.6; // a long name is written smaller before it is cut
      const g = link(n, s('rect.body', { width: nw, height: nh, rx: 8 }), s('rect.edge-mark', { width: 3, height: nh - 16, x: 0, y: 8, rx: 1.5 }),
        s('title', {}, n.title), s('text', { class: n.title.length > room / 8.6 ? 'title long' : 'title', x: 12, y: 21 }, clip(n.title, Math.floor(room / (n.title.length > room / 8.6 ? 6.7 : 8.6)))),
        s('text.kind', { x: nw - 30, y: 20.5, 'text-anchor': 'end' }, n.kind), mark,
        refs[n.id] = s('text.line', { x: 12, y: 40 }, clip(n.line, fit)));
      g.setAttribute('transform', `translate(${p.x} ${p.y})`);
      svg.append(g);
    }
    return svg;
  }
  const clip = (text, n) => text.length > n ? text.slice(0, Math.max(3, n - 1)) + '…' : text;

  // On a phone each node is a row, indented by its column, and rails lead down to it.
  function narrow(graph, width, refs) {
    const order = [], seen = new Set();
    const visit = id => {
      if (seen.has(id)) return;
      if (graph.edges.some(e => e.to === id && !seen.has(e.from))) return;
      seen.add(id); order.push(id);
      graph.edges.filter(e => e.from === id).forEach(e => visit(e.to));
    };
    graph.nodes.filter(n => n.col === 0).forEach(n => visit(n.id));
    graph.nodes.forEach(n => visit(n.id));
    const by = Object.fromEntries(graph.nodes.map(n => [n.id, n])), row = 46, pos = {};
    order.forEach((id, i) => { pos[id] = { x: 14 + by[id].col * 18, y: 6 + i * row }; });
    const height = order.length * row + 8, svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}` }), under = s('g');
    for (const e of graph.edges) {
      const a = pos[e.from], b = pos[e.to], y1 = a.y + row - 4, y2 = b.y + 20;
      under.append(s('path', { class: `edge st-${e.state}`, 'stroke-width': 1.5, d: `M${a.x} ${y1}V${y2 - 6}Q${a.x} ${y2} ${a.x + 6} ${y2}H${b.x - 13}`, 'data-id': e.from + '>' + e.to }));
    }
    svg.append(under);
    for (const id of order) {
      const n = by[id], p = pos[id], mark = D.state(n.state);
      mark.setAttribute('x', -6); mark.setAttribute('y', 13); mark.setAttribute('width', 14); mark.setAttribute('height', 14);
      const g = link(n, s('rect.body', { x: -13, y: 0, width: width - p.x + 12, height: row - 5, rx: 6 }), mark,
        s('text.title', { x: 16, y: 17 }, n.title, s('tspan.kind', { dx: 7 }, n.kind)),
        refs[id] = s('text.line', { x: 16, y: 33 }, clip(n.line, Math.floor((width - p.x - 18) / 5.8))));
      g.setAttribute('transform', `translate(${p.x} ${p.y})`);
      svg.append(g);
    }
    return svg;
  }

  // Pointing at a node, or reaching it by Tab, shows all that it depends on and all that depends on it.
  function reach(box, graph) {
    const follow = (id, from, to, out) => { for (const e of graph.edges) if (e[from] === id && !out.has(e.from + '>' + e.to)) { out.add(e.from + '>' + e.to); out.add(e[to]); follow(e[to], from, to, out); } };
    const show = id => {
      const out = new Set([id]);
      follow(id, 'from', 'to', out); follow(id, 'to', 'from', out);
      box.classList.add('focused');
      box.querySelectorAll('[data-id]').forEach(el => el.classList.toggle('near', out.has(el.getAttribute('data-id'))));
    };
    const clear = () => { box.classList.remove('focused'); };
    box.querySelectorAll('a.node').forEach(a => {
      for (const type of ['pointerenter', 'focus']) a.addEventListener(type, () => show(a.getAttribute('data-id')));
      for (const type of ['pointerleave', 'blur']) a.addEventListener(type, clear);
    });
  }

  D.pipeline = pipeline;
})();
