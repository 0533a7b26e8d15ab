// SPDX-License-Identifier: MIT
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  const BYTES = { live: 0, peak: 2, alloc: 4, temp: 6 };
  const ROW = 19, FIRST = 50, MORE = 250;

  function bytes(n) {
    let unit = 0, left = Math.abs(n);
    while (left >= 1024 && unit < 4) { left /= 1024; unit++; }
    return (n < 0 ? "-" : "") + (unit ? left.toFixed(1) : Math.round(left)) + " " + UNITS[unit];
  }
  const count = (n) => Math.round(n).toLocaleString("en");
  function time(us) {
    if (us < 1e3) return us.toFixed(0) + " us";
    if (us < 1e6) return (us / 1e3).toFixed(0) + " ms";
    if (us < 6e8) return +(us / 1e6).toFixed(1) + " s";
    return (us / 6e7).toFixed(0) + " min";
  }
  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // A site: [sums of 8, lifetimes, frames], frames innermost first, as numbers of data.frames: [name, place, library].
  const SUMS = 0, LIVES = 1, FRAMES = 2;
  const frameName = (number) => data.frames[number][0];
  const lowered = data.frames.map((frame) => frame.join(" ").toLowerCase());
  let query = "";
  const frameHits = (number) => query !== "" && lowered[number].includes(query);
  const siteHits = (site) => query === "" || site[FRAMES].some(frameHits);

  // The flame graph: callers above.
  let root, zoomed;
  function tree(measure) {
    const top = { frame: -1, value: 0, depth: 0, below: new Map(), above: null };
    for (const site of data.sites) {
      const value = site[SUMS][BYTES[measure]];
      if (value <= 0) continue;
      let node = top;
      node.value += value;
      for (let i = site[FRAMES].length - 1; i >= 0; i--) {
        const frame = site[FRAMES][i];
        let next = node.below.get(frame);
        if (!next) node.below.set(frame, (next = { frame, value: 0, depth: node.depth + 1, below: new Map(), above: node }));
        next.value += value;
        node = next;
      }
    }
    return top;
  }
  const nameOf = (node) => (node.frame < 0 ? "all" : frameName(node.frame));
  function hue(text) {
    let sum = 0;
    for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) >>> 0;
    return (sum % 25) - 12;
  }
  const nodes = new WeakMap();
  function place(node, x, width, faded, list) {
    const box = element("div", width > 24 ? nameOf(node) : "", faded ? "above" : "");
    const [h, s, l] = getComputedStyle(document.documentElement).getPropertyValue("--flame").trim().split(" ");
    box.style.cssText = `left:${x}px;width:${Math.max(width, 1)}px;top:${node.depth * ROW}px;background:hsl(${+h + hue(nameOf(node))} ${s} ${l})`;
    box.tabIndex = width > 24 ? 0 : -1;
    box.setAttribute("role", "button");
    if (node.frame >= 0 && frameHits(node.frame)) box.classList.add("hit");
    box.title = nameOf(node) + ": " + bytes(node.value);
    nodes.set(box, node);
    list.push(box);
  }
  function draw() {
    const graph = at("graph"), width = graph.clientWidth, list = [];
    let deepest = zoomed.depth;
    for (let node = zoomed.above; node; node = node.above) place(node, 0, width, true, list);
    const walk = (node, x, scale) => {
      const own = node.value * scale;
      if (own < 0.6) return;
      deepest = Math.max(deepest, node.depth);
      place(node, x, own, false, list);
      for (const next of [...node.below.values()].sort((a, b) => b.value - a.value)) {
        walk(next, x, scale);
        x += next.value * scale;
      }
    };
    if (zoomed.value > 0) walk(zoomed, 0, width / zoomed.value);
    graph.replaceChildren(...list);
    graph.style.height = (deepest + 1) * ROW + "px";
    at("reset").disabled = !zoomed.above && query === "";
    at("found").textContent = query === "" ? "" : found();
  }
  function found() {
    const column = BYTES[at("measure").value];
    const sum = (list) => list.reduce((all, site) => all + Math.max(site[SUMS][column], 0), 0);
    const part = sum(data.sites.filter(siteHits)), all = sum(data.sites);
    return `${bytes(part)} in stacks that have it` + (all ? `, ${((100 * part) / all).toFixed(1)} %` : "");
  }
  function measure() {
    root = zoomed = tree(at("measure").value);
    draw();
  }
  const boxOf = (event) => nodes.get(event.target.closest("#graph div"));
  function zoom(event) {
    const node = boxOf(event);
    if (node) { zoomed = node; draw(); }
  }
  function hover(event) {
    const node = event.target.closest("#graph div") && boxOf(event);
    if (!node) return;
    const share = root.value ? ((100 * node.value) / root.value).toFixed(1) : 0;
    const where = node.frame < 0 ? [] : data.frames[node.frame].slice(1).filter(Boolean);
    at("hover").textContent = [nameOf(node), `${bytes(node.value)} (${share} %)`, ...where].join("  ·  ");
  }

  // Tables.
  function siteCell(frames) {
    const cell = element("td", undefined, "place"), details = element("details");
    const names = frames.slice(0, 3).map(frameName).join(" < ") || "[no stack]";
    details.append(element("summary", names + (frames.length > 3 ? " < …" : "")));
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      const list = element("ol");
      for (const frame of frames) {
        const [name, where, library] = data.frames[frame], item = element("li");
        item.append(element("b", name), "  " + (where || library));
        list.append(item);
      }
      details.append(list);
    });
    cell.append(details);
    return cell;
  }
  // `columns`: heading, value of a row to sort by, how it is shown; no value: the cell is made by the third.
  function table(id, columns, all) {
    const state = { by: 0, up: false, shown: FIRST };
    const target = at(id), more = element("button", undefined, "more");
    target.parentElement.after(more);
    function show() {
      const key = columns[state.by][1];
      const rows = all().sort((a, b) => (state.up ? 1 : -1) * (typeof key(a) === "string" ? key(a).localeCompare(key(b)) : key(a) - key(b)));
      const head = element("tr");
      columns.forEach(([name, value, cell], index) => {
        const th = element("th", undefined, cell.length === 2 ? "" : "n"), button = element("button", name);
        if (index === state.by) th.setAttribute("aria-sort", state.up ? "ascending" : "descending");
        button.addEventListener("click", () => { state.up = state.by === index && !state.up; state.by = index; show(); });
        th.append(button);
        head.append(th);
      });
      const body = element("tbody");
      for (const row of rows.slice(0, state.shown)) {
        const tr = element("tr");
        for (const [, value, cell] of columns) tr.append(cell.length === 2 ? cell(row, 0) : element("td", cell(value(row)), "n"));
        body.append(tr);
      }
      const thead = element("thead");
      thead.append(head);
      target.replaceChildren(thead, body);
      more.hidden = rows.length <= state.shown;
      more.textContent = `Show more (${count(Math.min(state.shown, rows.length))} of ${count(rows.length)})`;
    }
    more.addEventListener("click", () => { state.shown += MORE; show(); });
    show();
    return show;
  }
  const median = (lives) => {
    const all = lives.reduce((a, b) => a + b, 0);
    let sum = 0;
    for (let i = 0; i < lives.length; i++) if (all && 2 * (sum += lives[i]) >= all) return 2 * 4 ** i;
    return -1;
  };
  const sum = (index) => (site) => site[SUMS][index];
  const siteColumn = ["site", (site) => (site[FRAMES].length ? frameName(site[FRAMES][0]) : ""), (site, _) => siteCell(site[FRAMES])];
  const text = (index) => [index, (row, _) => element("td", row[index])];

  const showSites = table("sitetable", [
    ["in use", sum(0), bytes], ["blocks", sum(1), count], ["at the peak", sum(2), bytes], ["allocated", sum(4), bytes],
    ["median life", (site) => median(site[LIVES]), (us) => (us < 0 ? "-" : time(us))], siteColumn,
  ], () => data.sites.filter(siteHits));
  table("temptable", [
    ["temporary", sum(6), bytes], ["blocks", sum(7), count], ["of all blocks", (s) => s[SUMS][7] / (s[SUMS][5] || 1), (n) => (100 * n).toFixed(0) + " %"], siteColumn,
  ], () => data.sites.filter((site) => site[SUMS][7] >= 0.5).sort((a, b) => b[SUMS][6] - a[SUMS][6]).slice(0, 20));
  table("threadtable", [
    ["in use", (t) => t[1], bytes], ["blocks", (t) => t[2], count], ["thread", (t) => t[0], text(0)[1]],
  ], () => data.threads.slice());
  table("classtable", [
    ["in use", (c) => c[1], bytes], ["blocks", (c) => c[2], count], ["slack", (c) => c[3], bytes],
    ["slack, part", (c) => c[3] / (c[1] + c[3] || 1), (n) => (100 * n).toFixed(1) + " %"], ["block size", (c) => c[0], bytes],
  ], () => data.classes.slice());

  // Pictures.
  function lifetimes() {
    const all = data.sites.reduce((sums, site) => sums.map((n, i) => n + site[LIVES][i]), new Array(16).fill(0));
    const most = Math.max(...all), box = element("div", undefined, "life");
    if (most < 0.5) { at("lifechart").append(element("p", "Nothing that was sampled has been freed.")); return; }
    const last = all.reduce((found, n, i) => (n >= 0.5 ? i : found), 0);
    for (let i = 0; i <= last; i++) {
      const bar = element("i");
      bar.style.width = (100 * all[i]) / most + "%";
      const hold = element("div");
      hold.append(bar);
      box.append(element("span", (i ? "from " + time(4 ** i) : "below 4 us")), hold, element("span", count(all[i])));
    }
    at("lifechart").append(box);
  }
  function svg(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function timeline() {
    const points = data.timeline, box = at("chart");
    if (points.length < 2) { at("timeline").hidden = true; return; }
    const W = Math.max(320, Math.min(1140, box.clientWidth)), H = 240, left = 74, bottom = 26, first = points[0][0];
    const span = points[points.length - 1][0] - first || 1;
    const lines = [["in use", 1, "var(--live)"], ["resident", 2, "var(--fragmented)"]].filter(([, i]) => points.some((p) => p[i] !== null));
    const most = Math.max(1, ...points.flatMap((p) => lines.map(([, i]) => p[i] || 0))) * 1.05;
    const x = (us) => left + ((us - first) / span) * (W - left - 8), y = (n) => 8 + (1 - n / most) * (H - 8 - bottom);
    const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Memory over time" });
    for (let i = 0; i <= 4; i++) {
      const value = (most * i) / 4;
      picture.append(svg("line", { x1: left, x2: W - 8, y1: y(value), y2: y(value), stroke: "var(--line)" }));
      picture.append(svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, bytes(value)));
    }
    for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]])
      picture.append(svg("text", { x: x(first + span * part), y: H - 6, "text-anchor": anchor }, time(first + span * part)));
    const legend = element("p", undefined, "legend");
    for (const [name, index, colour] of lines) {
      const path = points.filter((p) => p[index] !== null).map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[index]).toFixed(1)}`).join("");
      picture.append(svg("path", { d: path, fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" }));
      const entry = element("span"), mark = element("i");
      mark.style.background = colour;
      entry.append(mark, name);
      legend.append(entry);
    }
    box.replaceChildren(picture, legend);
  }

  at("measure").addEventListener("change", measure);
  at("graph").addEventListener("click", zoom);
  at("graph").addEventListener("keydown", (event) => { if (event.key === "Enter") zoom(event); });
  at("graph").addEventListener("mouseover", hover);
  at("graph").addEventListener("focusin", hover);
  at("search").addEventListener("input", () => { query = at("search").value.trim().toLowerCase(); draw(); showSites(); });
  at("reset").addEventListener("click", () => { query = at("search").value = ""; zoomed = root; draw(); showSites(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); timeline(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  for (const id of ["classes", "threads"]) at(id).hidden = data[id].length === 0;
  at("temporary").hidden = !data.sites.some((site) => site[SUMS][7] >= 0.5);
  if (!data.sites.some((site) => site[SUMS][0] > 0)) at("measure").value = "alloc";
  timeline();
  lifetimes();
  measure();
})();
