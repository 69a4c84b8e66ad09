'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const canvas = document.getElementById('canvas');
  const labels = document.getElementById('labels');
  const tip = document.getElementById('tip');
  const pen = canvas.getContext('2d');
  const COLOURS = {
    step: '#9aa5b5', compute: '#2f7ed8', wait: '#d9dee6', input: '#e8963a', split: '#c9b037', copy: '#8c6bb1',
    reduce: '#2ca58d', update: '#d1495b', exchange: '#b3478f', share: '#6c8ebf', gpu: '#3f7f5f', program: '#5b9a3c',
  };
  const RULER = 22, LEVEL = 18, GAP = 8, CURVE = 46;

  document.title = data.title;
  document.getElementById('title').textContent = data.title;
  const left_out = data.left_out > 0 ? `${data.left_out} later spans are left out.\n\n` : '';
  document.getElementById('report').textContent = left_out + data.report;

  // Each row is as high as its spans lie deep, and has its own spans in the order of their beginnings.
  const rows = data.rows.map((label) => ({ label, depth: 1, spans: [], longest: 0, top: 0 }));
  let whole = 1;
  for (const [row, name, start, duration, depth, step, bytes] of data.spans) {
    const of = rows[row];
    of.depth = Math.max(of.depth, depth + 1);
    of.longest = Math.max(of.longest, duration);
    of.spans.push({ name, start, end: start + duration, depth, step, bytes });
    whole = Math.max(whole, start + duration);
  }
  const curves = Object.entries(data.counters).map(([name, points]) => ({ name, points, top: 0 }));
  let height = RULER;
  const place = (item, size, text) => {
    item.top = height;
    const label = document.createElement('div');
    label.style.top = `${height}px`;
    label.style.height = `${size}px`;
    label.textContent = text;
    label.title = text;
    labels.append(label);
    height += size;
  };
  for (const row of rows) place(row, row.depth * LEVEL + GAP, row.label);
  for (const curve of curves) place(curve, CURVE, `bytes ${curve.name}`);
  labels.style.height = canvas.style.height = `${height}px`;

  const used = new Set(data.names.map(([, category]) => category));
  for (const category of Object.keys(COLOURS).filter((each) => used.has(each))) {
    const entry = document.createElement('span');
    const box = document.createElement('i');
    box.style.background = COLOURS[category];
    entry.append(box, category);
    document.getElementById('legend').append(entry);
  }

  // What is shown, in nanoseconds from the first span on.
  const view = { from: 0, to: whole };
  let width = 1, drawing = 0, hovered = null;

  const time = (nanoseconds) => {
    const size = Math.abs(nanoseconds);
    if (size < 1e3) return `${nanoseconds.toFixed(0)} ns`;
    if (size < 1e6) return `${(nanoseconds / 1e3).toPrecision(4)} \u00b5s`;
    if (size < 1e9) return `${(nanoseconds / 1e6).toPrecision(4)} ms`;
    return `${(nanoseconds / 1e9).toPrecision(4)} s`;
  };
  const amount = (bytes) => {
    const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
    let unit = 0;
    for (; bytes >= 1000 && unit + 1 < units.length; unit++) bytes /= 1000;
    return `${unit ? bytes.toPrecision(3) : bytes} ${units[unit]}`;
  };
  const at = (nanoseconds) => ((nanoseconds - view.from) / (view.to - view.from)) * width;
  const moment = (x) => view.from + (x / width) * (view.to - view.from);

  // The first of the row's spans that may reach into view.
  const first_in_view = (row) => {
    let low = 0, high = row.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.spans[middle].start + row.longest < view.from) low = middle + 1; else high = middle;
    }
    return low;
  };

  const draw = () => {
    drawing = 0;
    const style = getComputedStyle(document.documentElement);
    const [ink, line, soft] = ['--ink', '--line', '--soft'].map((name) => style.getPropertyValue(name));
    const scale = window.devicePixelRatio || 1;
    width = Math.max(1, canvas.clientWidth);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.fillStyle = soft;
    pen.fillRect(0, 0, width, RULER);
    // A mark every 100 pixels or more, at 1, 2 or 5 of a power of ten.
    const least = ((view.to - view.from) / width) * 100;
    const power = 10 ** Math.floor(Math.log10(least));
    const every = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= least);
    for (let mark = Math.ceil(view.from / every) * every; mark < view.to; mark += every) {
      pen.fillStyle = line;
      pen.fillRect(at(mark), 0, 1, height);
      pen.fillStyle = ink;
      pen.fillText(time(mark), at(mark) + 4, RULER / 2);
    }
    for (const row of rows) {
      pen.fillStyle = line;
      pen.fillRect(0, row.top, width, 1);
      // Spans that would fall on a pixel that has one of their depth are not drawn again.
      const drawn = new Array(row.depth).fill(-1);
      for (let next = first_in_view(row); next < row.spans.length; next++) {
        const span = row.spans[next];
        if (span.start > view.to) break;
        if (span.end < view.from) continue;
        const left = Math.max(0, at(span.start));
        const right = Math.min(width, Math.max(at(span.end), left + 1));
        if (right <= drawn[span.depth]) continue;
        drawn[span.depth] = right;
        const [name, category] = data.names[span.name];
        const top = row.top + GAP / 2 + span.depth * LEVEL;
        pen.fillStyle = COLOURS[category] || '#777777';
        pen.fillRect(left, top, Math.max(1, right - left - (right - left > 3 ? 1 : 0)), LEVEL - 2);
        if (right - left > 30) {
          pen.fillStyle = category === 'wait' || category === 'step' || category === 'split' ? '#1d2430' : '#ffffff';
          pen.save();
          pen.beginPath();
          pen.rect(left, top, right - left - 3, LEVEL - 2);
          pen.clip();
          pen.fillText(name, left + 4, top + LEVEL / 2 - 1);
          pen.restore();
        }
      }
    }
    for (const { points, top } of curves) {
      const most = points[points.length - 1][1] || 1;
      pen.fillStyle = line;
      pen.fillRect(0, top, width, 1);
      pen.strokeStyle = COLOURS.compute;
      pen.beginPath();
      let level = top + CURVE - 4;
      pen.moveTo(0, level);
      for (const [when, bytes] of points) {
        const x = at(when);
        if (x > width) break;
        const next = top + CURVE - 4 - (bytes / most) * (CURVE - 18);
        if (x >= 0) {
          pen.lineTo(x, level);
          pen.lineTo(x, next);
        } else {
          pen.moveTo(0, next);
        }
        level = next;
      }
      pen.lineTo(width, level);
      pen.stroke();
      pen.fillStyle = ink;
      pen.fillText(amount(most), 4, top + 9);
    }
  };
  const redraw = () => {
    if (!drawing) drawing = requestAnimationFrame(draw);
  };

  // `size` is how much of the trace is to be seen; what is at pixel `x` stays there.
  const zoom = (factor, x = width / 2) => {
    const centre = moment(x);
    const size = Math.min(whole, Math.max(20, (view.to - view.from) * factor));
    show(centre - (x / width) * size, size);
  };
  const show = (from, size) => {
    view.from = Math.max(0, Math.min(from, whole - size));
    view.to = view.from + size;
    redraw();
  };
  const move = (pixels) => show(view.from + (pixels / width) * (view.to - view.from), view.to - view.from);

  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX || event.deltaY);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX);
  }, { passive: false });
  let held = null;
  canvas.addEventListener('pointerdown', (event) => {
    held = event.offsetX;
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('pointermove', (event) => {
    if (held !== null) {
      move(held - event.offsetX);
      held = event.offsetX;
      tip.hidden = true;
      return;
    }
    hovered = found(event.offsetX, event.offsetY);
    tip.hidden = !hovered;
    if (!hovered) return;
    const [name, category] = data.names[hovered.name];
    const lines = [name, `${category}, ${time(hovered.end - hovered.start)}, from ${time(hovered.start)} on`];
    if (hovered.step !== null) lines.push(`step ${hovered.step}`);
    if (hovered.bytes !== null) lines.push(amount(hovered.bytes));
    tip.textContent = lines.join('\n');
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  const found = (x, y) => {
    const row = rows.find((each) => y >= each.top && y < each.top + each.depth * LEVEL + GAP);
    if (!row) return null;
    const depth = Math.floor((y - row.top - GAP / 2) / LEVEL), when = moment(x);
    const slack = (view.to - view.from) / width;
    for (let next = first_in_view(row); next < row.spans.length && row.spans[next].start <= when; next++) {
      const span = row.spans[next];
      if (span.depth === depth && span.end + slack >= when) return span;
    }
    return null;
  };
  const keys = {
    '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), '0': () => show(0, whole),
    ArrowLeft: () => move(-width / 5), ArrowRight: () => move(width / 5),
  };
  addEventListener('keydown', (event) => {
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  for (const [id, key] of [['in', '+'], ['out', '-'], ['left', 'ArrowLeft'], ['right', 'ArrowRight'], ['fit', '0']]) {
    document.getElementById(id).addEventListener('click', keys[key]);
  }
  addEventListener('resize', redraw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  // For whoever drives the page by a program.
  window.umboTrace = { view, rows: data.rows, found, draw };
  draw();
})();
