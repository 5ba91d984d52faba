// Charts drawn by hand in SVG: axes with units, values under the pointer or the arrow keys, gaps that stay gaps.
'use strict';
(() => {
  const { h, s, clock } = D;

  // Redraws when the width changes; the height is fixed, so nothing on the page jumps.
  function sized(el, draw) {
    let last = 0;
    const again = () => requestAnimationFrame(() => { const w = Math.floor(el.clientWidth); if (w && w !== last) { last = w; draw(w); } });
    new ResizeObserver(again).observe(el);
    el.redraw = () => { if (last) draw(last); };
    return el;
  }

  // 3 to 5 round steps that cover the maximum.
  function ticks(max, base) {
    if (!(max > 0)) max = 1;
    if (base === 'time') {
      const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 12e7, 3e8, 6e8, 18e8, 36e8, 72e8, 216e8, 432e8, 864e8];
      const step = steps.find(x => max / x <= 4) || 864e8 * Math.ceil(max / 864e8 / 4);
      return Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step);
    }
    const root = base === 'bytes' ? 2 : 10;
    const raw = max / 4, power = Math.pow(root === 2 ? 1024 : 10, Math.floor(Math.log(raw) / Math.log(root === 2 ? 1024 : 10)));
    const choices = root === 2 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 2.5, 5, 10];
    // A quarter of one has two digits behind the point.
    const step = choices.filter(c => c !== 2.5 || power >= 1).map(c => c * power).find(x => x >= raw && (base !== 'count' || x >= 1)) || raw;
    return Array.from({ length: Math.ceil(max / step) + 1 }, (_, i) => i * step);
  }

  function path(points, x, y, close) {
    let d = '', open = false, first = 0, lastX = 0;
    points.forEach((v, i) => {
      if (v === null) { if (open && close) d += `L${lastX} ${close}L${first} ${close}Z`; open = false; return; }
      const px = +x(i).toFixed(1), py = +y(v).toFixed(1);
      d += (open ? 'L' : 'M') + px + ' ' + py;
      if (!open) first = px;
      lastX = px; open = true;
    });
    if (open && close) d += `L${lastX} ${close}L${first} ${close}Z`;
    return d;
  }
  function gaps(points) {
    const out = [];
    points.forEach((v, i) => { if (v === null) { const last = out[out.length - 1]; if (last && last[1] === i - 1) last[1] = i; else out.push([i, i]); } });
    return out;
  }

  // series: [{ name, values, kind }], start and step in ms. limit: { value, text }. marks: [{ at, text }].
  function line(shown) {
    const { title, series, start, step, format, base, height = 180, area, limit, marks = [], low } = shown;
    const box = h('figure.chart', { tabindex: 0, role: 'group', 'aria-label': title + '. Arrow keys move the cursor.' });
    // With new values another takes its place, but not under somebody who walks along it.
    box.shown = shown;
    box.update = next => { if (document.activeElement !== box && JSON.stringify(next) !== JSON.stringify(box.shown)) box.replaceWith(line(next)); };
    const tip = h('div.tip', { hidden: true });
    const live = h('span.sr', { 'aria-live': 'polite' });
    const holes = series[0].values.some(v => v === null);
    const legend = (series.length > 1 || holes) && h('figcaption.legend', {}, series.length > 1 && series.map(one => h('span', {}, h('i', { class: 'key k-' + one.kind }), one.name)), holes && h('span', {}, h('i', { class: 'key k-gap' }), 'no data'));
    const holder = h('div.chart-area');
    box.append(holder, tip, live);
    if (legend) box.append(legend);
    let at = null, move = () => {};
    sized(holder, width => {
      const n = series[0].values.length, left = 58, right = 10, top = 8, bottom = 22;
      const all = series.flatMap(one => one.values.filter(v => v !== null));
      let max = Math.max(0, ...all); if (limit) max = Math.max(max, limit.value);
      if (low && max < low) max = low;
      const grid = ticks(max, base), peak = grid[grid.length - 1];
      const x = i => left + i / (n - 1) * (width - left - right), y = v => top + (1 - v / peak) * (height - top - bottom), floor = height - bottom;
      const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
      for (const v of grid) svg.append(s('line.grid', { x1: left, x2: width - right, y1: Math.round(y(v)) + .5, y2: Math.round(y(v)) + .5 }), s('text.axis', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, v === 0 ? '0' : format(v).replace('.0 ', ' ')));
      const every = [60e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 6 * 3600e3].find(t => (width - left) / (n * step / t) > 72) || 12 * 3600e3;
      for (let t = Math.ceil(start / every) * every; t <= start + (n - 1) * step; t += every) {
        const px = x((t - start) / step);
        svg.append(s('line.tick', { x1: Math.round(px) + .5, x2: Math.round(px) + .5, y1: floor, y2: floor + 4 }), s('text.axis', { x: Math.min(px, width - 16), y: height - 5, 'text-anchor': 'middle' }, clock(t).slice(0, 5)));
      }
      for (const [a, b] of gaps(series[0].values)) {
        const x1 = x(Math.max(0, a - 1)), x2 = x(Math.min(n - 1, b + 1));
        svg.append(s('rect.gap', { x: x1, y: top, width: x2 - x1, height: floor - top }));
        for (let g = x1 + 4; g < x2; g += 6) svg.append(s('line.hatch', { x1: g, x2: g, y1: top, y2: floor }));
        if (x2 - x1 > 44) svg.append(s('text.gap-text', { x: (x1 + x2) / 2, y: top + 13, 'text-anchor': 'middle' }, 'no data'));
      }
      if (limit) svg.append(s('line.limit', { x1: left, x2: width - right, y1: y(limit.value), y2: y(limit.value) }), s('text.limit-text', floor - y(limit.value) < 22 ? { x: left + 4, y: y(limit.value) - 5 } : { x: width - right, y: y(limit.value) + 13, 'text-anchor': 'end' }, limit.text));
      for (const mark of marks) {
        const px = x((mark.at - start) / step);
        if (px < left) continue;
        const side = px > width * .7 ? 'end' : 'start';
        svg.append(s('line.mark', { x1: px, x2: px, y1: top, y2: floor }), s('text.mark-text', { x: px + (side === 'end' ? -5 : 5), y: top + 12, 'text-anchor': side }, mark.text));
      }
      for (const one of series) {
        if (area || one.area) svg.append(s('path', { class: 'area k-' + one.kind, d: path(one.values, x, y, floor) }));
        svg.append(s('path', { class: 'line k-' + one.kind, d: path(one.values, x, y) }));
      }
      const cursor = s('line.cursor', { y1: top, y2: floor, x1: -999, x2: -999 });
      const dots = series.map(one => s('circle', { class: 'dot k-' + one.kind, r: 3.5, cx: -999, cy: -999 }));
      svg.append(cursor, ...dots);
      holder.replaceChildren(svg);
      move = i => {
        at = i;
        if (i === null) { tip.hidden = true; cursor.setAttribute('x1', -999); cursor.setAttribute('x2', -999); dots.forEach(d => d.setAttribute('cx', -999)); return; }
        const px = x(i);
        cursor.setAttribute('x1', px); cursor.setAttribute('x2', px);
        const none = series[0].values[i] === null;
        series.forEach((one, k) => { dots[k].setAttribute('cx', one.values[i] === null ? -999 : px); dots[k].setAttribute('cy', one.values[i] === null ? -999 : y(one.values[i])); });
        tip.hidden = false;
        tip.replaceChildren(h('b', {}, clock(start + i * step) + ' UTC'), ...(none ? [h('span', {}, 'no data: nothing was measured')] : series.map(one => h('span', {}, h('i', { class: 'key k-' + one.kind }), series.length > 1 ? one.name + ' ' : '', h('em', {}, format(one.values[i]))))));
        const w = tip.offsetWidth;
        tip.style.setProperty('transform', `translate(${Math.round(px + 12 + w > width ? px - 12 - w : px + 12)}px, 8px)`);
      };
      svg.addEventListener('pointermove', e => { const r = svg.getBoundingClientRect(); const i = Math.round((e.clientX - r.left - left) / (width - left - right) * (n - 1)); move(Math.max(0, Math.min(n - 1, i))); });
      svg.addEventListener('pointerleave', () => move(null));
      box.onkeydown = e => {
        const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[e.key];
        if (e.key === 'Escape') { move(null); return; }
        if (!by) return;
        e.preventDefault();
        move(Math.max(0, Math.min(n - 1, (at === null ? n - 1 : at) + by)));
        live.textContent = tip.textContent;
      };
      box.onblur = () => move(null);
    });
    return box;
  }

  Object.assign(D, { sized, chart: { line } });
})();
