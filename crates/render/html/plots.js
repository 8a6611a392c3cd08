// Plots the operations: time or bandwidth by size, and how the times of one operation are spread.
//
// Both draw from the report that the page carries; the spread also from the histograms beside it. The second
// plot and the figures under it show one operation. A row of the table picks it, and so do a mark of the
// first plot and the list above the second. Marks differ in shape as well as in colour.

const report = JSON.parse(document.getElementById("report").textContent);
const { histograms, short_ids } = JSON.parse(document.getElementById("more").textContent);
const operations = report.operations;
const table_rows = new Map();
for (const row of document.querySelectorAll('table[data-rows="operations"] tbody tr'))
  table_rows.set(Number(row.dataset.i), row);

const COLOURS = 8;
const STATISTICS = ["n", "sum", "mean", "min", "p50", "p95", "p99", "max"];

// ---- words and figures

const name_of = (operation) => operation.function ?? "unnamed";
const way_of = (operation) =>
  operation.algorithm || operation.protocol
    ? `${operation.algorithm ?? "-"}/${operation.protocol ?? "-"}`
    : "";

const communicator_of = (operation) => short_ids[operation.communicator] ?? "";

const label = (operation) =>
  [
    name_of(operation),
    operation.bytes === null ? "unknown size" : size(operation.bytes),
    operation.datatype && datatype(operation.datatype),
    communicator_of(operation),
    way_of(operation),
  ]
    .filter(Boolean)
    .join(" · ");

// ---- elements

function choice(title, name, options, chosen, on_change) {
  const select = element("select", { "aria-label": name });
  for (const [value, text] of options) {
    const option = element("option", { value }, text);
    option.selected = value === chosen;
    select.append(option);
  }
  select.addEventListener("change", () => on_change(select.value));
  return element("label", {}, title, select);
}

// One mark for each colour, so that colour is not the only carrier.
function dot(kind, x, y, radius, css) {
  const r = radius;
  const paths = [
    null,
    `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x} ${y - 1.3 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z`,
    `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}z`,
    `M${x} ${y + 1.3 * r}L${x + 1.2 * r} ${y - r}H${x - 1.2 * r}z`,
    `M${x - 1.4 * r} ${y - 0.6 * r}h${2.8 * r}v${1.2 * r}h${-2.8 * r}z`,
    `M${x - 0.6 * r} ${y - 1.4 * r}h${1.2 * r}v${2.8 * r}h${-1.2 * r}z`,
  ];
  const path = paths[kind % COLOURS];
  return path ? shape("path", { d: path, class: css }) : shape("circle", { cx: x, cy: y, r, class: css });
}

// ---- scales

function log_scale([low, high], [from, to]) {
  const a = Math.log(low);
  const by = (to - from) / (Math.log(high) - a);
  const scale = (value) => from + (Math.log(value) - a) * by;
  scale.invert = (at) => Math.exp(a + (at - from) / by);
  return scale;
}

// Room around what is shown, and at least a factor of `least` from end to end.
function widened(low, high, least) {
  const span = Math.max(high / low, least);
  const middle = Math.sqrt(low * high);
  const half = Math.sqrt(span) * span ** 0.04;
  return [middle / half, middle * half];
}

function decimal_ticks([low, high], most) {
  if (high / low > 20) {
    const decades = Math.log10(high / low);
    const steps = decades < most / 3 ? [1, 2, 5] : [1];
    const every = Math.ceil(decades / most);
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (power % every !== 0) continue;
      for (const step of steps) ticks.push(step * 10 ** power);
    }
    return ticks.filter((tick) => tick >= low && tick <= high);
  }
  return even_ticks(low, high, most);
}

function binary_ticks([low, high], most) {
  const from = Math.ceil(Math.log2(low) - 1e-9);
  const to = Math.floor(Math.log2(high) + 1e-9);
  const every = Math.max(1, Math.ceil((to - from + 1) / most));
  const ticks = [];
  for (let power = from; power <= to; power++) if (power % every === 0) ticks.push(2 ** power);
  return ticks;
}

// ---- the frame that both plots share

class Plot {
  constructor(figure, label) {
    this.figure = figure;
    this.label = label;
    this.choices = element("div", { class: "choices" });
    this.place = element("div");
    this.tip = element("div", { class: "tip", role: "status" });
    this.tip.hidden = true;
    figure.append(this.choices, this.place, this.tip);
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.drawn_width) this.draw();
    }).observe(this.place);
  }

  begin(height, margin) {
    const width = Math.max(260, this.place.clientWidth);
    this.drawn_width = this.place.clientWidth;
    this.tip.hidden = true;
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": this.label,
      tabindex: "0",
    });
    this.place.replaceChildren(svg);
    this.box = {
      width,
      height,
      left: margin.left,
      right: width - margin.right,
      top: margin.top,
      bottom: height - margin.bottom,
    };
    return svg;
  }

  empty(text) {
    this.drawn_width = this.place.clientWidth;
    this.place.replaceChildren(element("p", { class: "empty" }, text));
  }

  x_axis(svg, scale, ticks, text, title) {
    const { left, right, top, bottom } = this.box;
    svg.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    for (const tick of ticks) {
      const x = scale(tick);
      svg.append(shape("path", { class: "grid", d: `M${x} ${top}V${bottom}` }));
      svg.append(shape("text", { x, y: bottom + 16, "text-anchor": "middle" }, text(tick)));
    }
    svg.append(
      shape(
        "text",
        { class: "title", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" },
        title,
      ),
    );
  }

  y_axis(svg, scale, ticks, text, title) {
    const { left, right, top, bottom } = this.box;
    svg.append(shape("path", { class: "axis", d: `M${left} ${top}V${bottom}` }));
    for (const tick of ticks) {
      const y = scale(tick);
      svg.append(shape("path", { class: "grid", d: `M${left} ${y}H${right}` }));
      svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, text(tick)));
    }
    svg.append(shape("text", { class: "title", x: 2, y: 12 }, title));
  }

  show_tip(x, y, title, lines) {
    this.tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    this.tip.hidden = false;
    const scale = this.place.clientWidth / this.box.width;
    const place = this.place.offsetTop;
    const most = this.figure.clientWidth - this.tip.offsetWidth;
    const beside = x * scale + 14 > most ? x * scale - this.tip.offsetWidth - 14 : x * scale + 14;
    this.tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    this.tip.style.top = `${place + Math.max(0, y * scale - this.tip.offsetHeight - 10)}px`;
  }
}

// ---- time or bandwidth by size

const statistic = (field) => ({ value: (o) => o[field]?.p50 ?? null, spread: (o) => o[field] });
const MEASURES = [
  { key: "time", title: "GPU time of a call, µs", ...statistic("time_us") },
  { key: "shortest", title: "GPU time of the shortest rank, µs", ...statistic("shortest_us") },
  { key: "host", title: "Host time of a call, µs", ...statistic("host_us") },
  { key: "busbw", title: "busbw of the operation, GB/s", value: (o) => o.busbw_gb_per_s },
  { key: "call_busbw", title: "busbw of the median call, GB/s", value: (o) => o.call_busbw_gb_per_s },
];

class BySize extends Plot {
  constructor(figure) {
    super(figure, "Time or bandwidth by size");
    this.measures = MEASURES.filter((m) => operations.some((o) => o.bytes > 0 && m.value(o) > 0));
    this.measure = this.measures[0];
    const functions = [...new Set(operations.map(name_of))];
    this.function = "";
    if (!this.measure) return;
    this.choices.append(
      choice(
        "Show",
        "Figure by size",
        this.measures.map((m) => [m.key, m.title]),
        this.measure.key,
        (key) => {
          this.measure = this.measures.find((m) => m.key === key);
          this.draw();
        },
      ),
    );
    if (functions.length > 1) {
      const options = [["", "all functions"], ...functions.map((name) => [name, name])];
      this.choices.append(
        choice("of", "Functions by size", options, "", (name) => {
          this.function = name;
          this.draw();
        }),
      );
    }
    this.legend = element("ul", { class: "legend" });
    this.hint = element("p", { class: "hint" });
    figure.append(this.legend, this.hint);
  }

  // What is joined by a line: one function on one communicator by one algorithm and protocol.
  series(points) {
    const by_key = new Map();
    for (const point of points) {
      const { operation } = point;
      const parts = [name_of(operation), communicator_of(operation), way_of(operation)];
      const key = JSON.stringify(parts);
      if (!by_key.has(key)) by_key.set(key, { parts, points: [] });
      by_key.get(key).points.push(point);
    }
    const all = [...by_key.values()];
    // Parts that are the same everywhere say nothing.
    const differs = [0, 1, 2].map((i) => new Set(all.map((s) => s.parts[i])).size > 1);
    all.forEach((s, i) => {
      s.colour = Math.min(i, COLOURS - 1);
      const parts = s.parts.filter((part, j) => part && (differs[j] || j === 0));
      s.label = parts.join(" · ");
      s.points.sort((a, b) => a.x - b.x || a.y - b.y);
    });
    return all;
  }

  draw() {
    if (!this.measure) return this.empty("No operation has both a size and a time.");
    const { measure } = this;
    const wanted = operations
      .map((operation, i) => ({ operation, i, x: operation.bytes, y: measure.value(operation) }))
      .filter((p) => !this.function || name_of(p.operation) === this.function);
    this.points = wanted.filter((p) => p.x > 0 && p.y > 0 && (!this.in_span || this.in_span.has(p.i)));
    const left_out = wanted.length - this.points.length;
    const hints = [];
    if (measure.spread)
      hints.push("Mark: median (p50); bar: shortest call to p95; thin bar: to the longest.");
    hints.push(
      "Point at a mark to read it, pick it to see how its times are spread; arrow keys do the same.",
    );
    if (this.in_span) hints.push("Only operations with calls in the span that is selected above.");
    if (left_out && !this.in_span)
      hints.push(
        `Left out: ${left_out} of ${wanted.length} operations, ` +
          "without a size above 0 or without this figure.",
      );
    this.hint.textContent = hints.join(" ");
    this.legend.replaceChildren();
    if (!this.points.length)
      return this.empty(
        this.in_span
          ? "No operation with this figure has calls in the span."
          : "No operation has this figure.",
      );

    const svg = this.begin(360, { left: 52, right: 14, top: 24, bottom: 42 });
    const { left, right, top, bottom } = this.box;
    const spread = (p) => measure.spread?.(p.operation);
    const lows = this.points.map((p) => spread(p)?.min || p.y);
    const highs = this.points.map((p) => spread(p)?.max || p.y);
    const xs = this.points.map((p) => p.x);
    const x_domain = widened(Math.min(...xs), Math.max(...xs), 16);
    const y_domain = widened(Math.min(...lows), Math.max(...highs), 4);
    const x = log_scale(x_domain, [left, right]);
    const y = log_scale(y_domain, [bottom, top]);
    this.x_axis(
      svg,
      x,
      binary_ticks(x_domain, Math.floor((right - left) / 62)),
      size,
      "size by the convention of nccl-tests",
    );
    this.y_axis(svg, y, decimal_ticks(y_domain, 7), (v) => String(+v.toPrecision(6)), measure.title);

    const all = this.series(this.points);
    for (const s of all) {
      const group = shape("g", { class: `series c${s.colour}` });
      const whisker = (p, low, high, width) => {
        if (!(low > 0) || !(high > low)) return;
        const path = { class: "whisker", d: `M${p.px} ${y(low)}V${y(high)}`, "stroke-width": width };
        group.append(shape("path", path));
      };
      for (const p of s.points) {
        p.px = x(p.x);
        p.py = y(p.y);
        p.series = s;
        const times = spread(p);
        if (times) {
          whisker(p, times.min, times.max, 1);
          whisker(p, times.min, times.p95, 3);
        }
      }
      const line = s.points.map((p, i) => `${i ? "L" : "M"}${p.px} ${p.py}`).join("");
      group.append(shape("path", { class: "line", d: line }));
      for (const p of s.points) group.append(dot(s.colour, p.px, p.py, 4.5, "dot"));
      svg.append(group);
    }
    this.ring = shape("circle", { class: "ring", r: 9, cx: -99, cy: -99 });
    svg.append(this.ring);
    this.picked(picked);

    const shown = all.slice(0, all.length > COLOURS ? COLOURS - 1 : COLOURS);
    for (const s of shown) this.legend.append(this.entry(s.colour, s.label));
    if (all.length > shown.length)
      this.legend.append(this.entry(COLOURS - 1, `${all.length - shown.length} more, on pointing`));

    const nearest = (event) => {
      const at = svg.getBoundingClientRect();
      const by = this.box.width / at.width;
      const [px, py] = [(event.clientX - at.left) * by, (event.clientY - at.top) * by];
      const distance = (p) => Math.hypot(p.px - px, p.py - py);
      const found = this.points.reduce((best, p) => (distance(p) < distance(best) ? p : best));
      return distance(found) < 28 ? found : null;
    };
    svg.addEventListener("pointermove", (event) => this.point_at(nearest(event)));
    svg.addEventListener("pointerleave", () => this.point_at(null));
    svg.addEventListener("click", (event) => {
      const found = nearest(event);
      if (found) pick(found.i);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const order = [...this.points].sort((a, b) => a.x - b.x || a.y - b.y || a.i - b.i);
      const now = order.findIndex((p) => p.i === picked);
      const next = order[(now + step + order.length) % order.length];
      pick(next.i);
      this.point_at(next);
    });
    svg.addEventListener("blur", () => this.point_at(null));
  }

  entry(colour, text) {
    const svg = shape("svg", { viewBox: "0 0 14 14", "aria-hidden": "true", class: `c${colour}` });
    svg.append(dot(colour, 7, 7, 4.5, "dot"));
    return element("li", {}, svg, text);
  }

  point_at(point) {
    if (!point) {
      this.tip.hidden = true;
      return;
    }
    const { operation } = point;
    const lines = [];
    const times = this.measure.spread?.(operation);
    if (times) {
      const known = ["min", "p50", "p95", "p99", "max"].filter((key) => times[key] !== null);
      lines.push(known.map((key) => `${key} ${three(times[key])}`).join("  ") + " µs");
      lines.push(
        `${times.n} ${this.measure.key === "shortest" ? "operations" : "calls"}, sum ${time(times.sum)}`,
      );
    }
    if (operation.busbw_gb_per_s !== null) lines.push(`busbw ${three(operation.busbw_gb_per_s)} GB/s`);
    if (operation.call_busbw_gb_per_s !== null)
      lines.push(`busbw of the median call ${three(operation.call_busbw_gb_per_s)} GB/s`);
    this.show_tip(point.px, point.py, label(operation), lines);
  }

  picked(i) {
    const point = this.points?.find((p) => p.i === i);
    this.ring?.setAttribute("cx", point?.px ?? -99);
    this.ring?.setAttribute("cy", point?.py ?? -99);
  }
}

// ---- how the times of one operation are spread

const SPREADS = [
  { key: "time", field: "time_us", title: "GPU time of its calls", what: "calls" },
  { key: "shortest", field: "shortest_us", title: "GPU time of the shortest ranks", what: "operations" },
  { key: "host", field: "host_us", title: "host time of its calls", what: "calls" },
];

// Where a bucket begins, µs. See Histogram in the documentation of ncclscope's crate `analyze`.
function edge(number, per_octave) {
  const i = (number * 64) / per_octave;
  return (i < 64 ? i : (64 + (i % 64)) * 2 ** (Math.floor(i / 64) - 1)) / 1e3;
}

// The buckets that hold any, `wider` of the histogram's in each.
function buckets_of(histogram, wider) {
  const by_number = new Map();
  let number = histogram.first;
  for (const count of histogram.counts) {
    if (count < 0) {
      number -= count;
      continue;
    }
    const wide = Math.floor(number / wider);
    by_number.set(wide, (by_number.get(wide) ?? 0) + count);
    number += 1;
  }
  const per_octave = histogram.per_octave / wider;
  let upto = 0;
  return [...by_number].map(([number, count]) => ({
    count,
    low: edge(number, per_octave),
    high: edge(number + 1, per_octave),
    upto: (upto += count),
  }));
}

class Spread extends Plot {
  constructor(figure) {
    super(figure, "How the times of one operation are spread");
    this.wanted = "time";
    this.hint = element("p", { class: "hint" });
    figure.append(this.hint);
  }

  choose() {
    const there = SPREADS.filter((s) => histograms[picked]?.[s.key]);
    this.at = undefined;
    this.spread = there.find((s) => s.key === this.wanted) ?? there[0];
    const list = operations
      .map((operation, i) => [String(i), label(operation)])
      .filter(([i]) => SPREADS.some((s) => histograms[i]?.[s.key]));
    this.choices.replaceChildren();
    if (list.length)
      this.choices.append(choice("Of", "Operation", list, String(picked), (i) => pick(Number(i))));
    if (there.length > 1) {
      const options = there.map((s) => [s.key, s.title]);
      this.choices.append(
        choice("show", "Figure of the operation", options, this.spread.key, (key) => {
          this.wanted = key;
          this.draw();
        }),
      );
    }
  }

  draw() {
    // A list that is open or has the focus is not replaced under the reader's hands.
    const focused = [...this.choices.querySelectorAll("select")].indexOf(document.activeElement);
    this.choose();
    if (focused >= 0) this.choices.querySelectorAll("select")[focused]?.focus();
    this.hint.textContent = "";
    if (!this.spread) return this.empty("No durations are known one by one here.");
    const histogram = histograms[picked][this.spread.key];
    const times = operations[picked][this.spread.field];
    let buckets = buckets_of(histogram, 1);
    const total = buckets.at(-1).upto;
    // 0 has no place on the axis.
    const first = Math.max(buckets[0].low, 1e-3);
    const domain = widened(first, Math.max(buckets.at(-1).high, first), 1.25);

    const svg = this.begin(360, { left: 52, right: 46, top: 34, bottom: 42 });
    const { left, right, bottom } = this.box;
    const x = log_scale(domain, [left, right]);
    const at = (us) => x(Math.max(us, domain[0]));
    // Bars that can be told apart.
    let wider = 1;
    while (wider < histogram.per_octave && at(buckets.at(-1).high) - at(buckets.at(-1).low) < 3) {
      wider *= 2;
      buckets = buckets_of(histogram, wider);
    }
    // Percentiles that are close stand above each other.
    const marks = ["p50", "p95", "p99"]
      .filter((key) => typeof times?.[key] === "number")
      .map((key) => ({ key, px: at(times[key]) }));
    marks.forEach((mark, i) => {
      mark.row = i && mark.px - marks[i - 1].px < 28 ? marks[i - 1].row + 1 : 0;
    });
    const top = (this.box.top += 12 * Math.max(0, ...marks.map((mark) => mark.row)));
    const most = Math.max(...buckets.map((bucket) => bucket.count));
    const y = (count) => bottom - ((bottom - top) * count) / most;
    const share = (part) => bottom - (bottom - top) * part;
    this.x_axis(
      svg,
      x,
      decimal_ticks(domain, Math.floor((right - left) / 70)),
      time,
      `${this.spread.title}, logarithmic`,
    );
    const whole = even_ticks(0, most, 5).filter(Number.isInteger);
    this.y_axis(svg, y, whole, String, this.spread.what);
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      svg.append(shape("text", { x: right + 6, y: share(part) + 4 }, `${100 * part} %`));
    }
    svg.append(
      shape("text", { class: "title", x: this.box.width - 2, y: 12, "text-anchor": "end" }, "up to here"),
    );

    let path = `M${left} ${bottom}`;
    for (const bucket of buckets) {
      const [a, b] = [at(bucket.low), at(bucket.high)];
      // Rare ones must still be seen.
      const height = Math.max(1.5, bottom - y(bucket.count));
      const gap = b - a > 4 ? 1 : 0;
      svg.append(shape("rect", { class: "bar", x: a, y: bottom - height, width: b - a - gap, height }));
      path += `H${a}`;
      path += `L${b} ${share(bucket.upto / total)}`;
    }
    svg.append(shape("path", { class: "share", d: `${path}H${right}` }));
    for (const { key, px, row } of marks) {
      const base = top - 4 - 12 * row;
      svg.append(shape("path", { class: "mark", d: `M${px} ${base + 2}V${bottom}` }));
      svg.append(shape("text", { x: px, y: base, "text-anchor": "middle" }, key));
    }
    const cross = shape("path", { class: "cross", d: "" });
    svg.append(cross);
    this.hint.textContent =
      `${total} ${this.spread.what}, warm-ups left out. Bars: how many are in each bucket, ` +
      `${histogram.per_octave / wider} of which make a doubling; line: the share of them up to there.`;

    const point_at = (i) => {
      const bucket = buckets[i];
      if (!bucket) return;
      this.at = i;
      const middle = (at(bucket.low) + at(bucket.high)) / 2;
      cross.setAttribute("d", `M${middle} ${top}V${bottom}`);
      this.show_tip(middle, top + 60, `${time(bucket.low)} to ${time(bucket.high)}`, [
        `${bucket.count} of ${total} ${this.spread.what}`,
        `${percent(bucket.upto / total)} took at most this`,
      ]);
    };
    const leave = () => {
      this.tip.hidden = true;
      cross.setAttribute("d", "");
    };
    svg.addEventListener("pointermove", (event) => {
      const place = svg.getBoundingClientRect();
      const us = x.invert(((event.clientX - place.left) * this.box.width) / place.width);
      const i = buckets.findIndex((b) => us >= b.low && us < b.high);
      if (i < 0) leave();
      else point_at(i);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const i = (this.at ?? (step > 0 ? -1 : buckets.length)) + step;
      point_at(i);
    });
  }
}

// ---- what is picked

let picked = operations.findIndex((_, i) => histograms[i] && SPREADS.some((s) => histograms[i][s.key]));
const places = { size: document.getElementById("by-size"), spread: document.getElementById("spread") };
const detail = document.getElementById("detail");

function pick(i) {
  table_rows.get(picked)?.classList.remove("picked");
  picked = i;
  table_rows.get(i)?.classList.add("picked");
  by_size.picked(i);
  spread.draw();
  describe();
}

// Everything that the report knows of an operation and has no room for in the table.
function describe() {
  const operation = operations[picked];
  if (!operation) return;
  const head = element(
    "tr",
    {},
    element("th", { class: "t", scope: "col" }, "µs"),
    ...STATISTICS.map((s) => element("th", { scope: "col" }, s)),
  );
  const body = element("tbody");
  for (const { field, title } of SPREADS) {
    const times = operation[field];
    const cells = STATISTICS.map((s) => {
      const value = times?.[s] ?? null;
      return element("td", {}, s === "n" ? String(value ?? 0) : three(value));
    });
    body.append(element("tr", {}, element("td", { class: "t" }, title), ...cells));
  }
  const facts = [];
  const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;
  const over = operation.nranks === null ? "" : ` over ${count(operation.nranks, "rank", "ranks")}`;
  const source = operation.time_source ? ` (from ${operation.time_source})` : "";
  facts.push(
    `${count(operation.calls, "call", "calls")}${over}, ${operation.timed} with a GPU time${source}, ` +
      `${count(operation.warmup, "warm-up", "warm-ups")}; ` +
      `${count(operation.matched, "operation", "operations")} with a GPU time on every rank.`,
  );
  if (operation.captured || operation.replays)
    facts.push(
      `${operation.captured} captured into CUDA graphs; ${operation.replays} of the calls are replays.`,
    );
  for (const [cause, n] of Object.entries(operation.untimed)) {
    const remedy = report.completeness.remedies[cause];
    facts.push(`${n} without a GPU time, ${cause}${remedy ? `: ${remedy}` : ""}`);
  }
  if (operation.bandwidth_refused) facts.push(`Bandwidth refused: ${operation.bandwidth_refused}`);
  if (operation.percentile_error > 0)
    facts.push(`Percentiles are from a histogram, within ${100 * operation.percentile_error} %.`);
  const table = element("table", { class: "detail" }, element("thead", {}, head), body);
  const list = element("ul", { class: "lines" }, ...facts.map((fact) => element("li", {}, fact)));
  detail.replaceChildren(
    element("h3", {}, label(operation)),
    element("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Its figures" }, table),
    list,
  );
}

let by_size;
let spread;
if (places.size && operations.length) {
  document.getElementById("plots").hidden = false;
  document.getElementById("without").hidden = true;
  by_size = new BySize(places.size);
  spread = new Spread(places.spread);
  for (const [i, row] of table_rows) {
    // The name becomes a button, so that the keyboard can pick too.
    const cell = row.cells[0];
    const button = element("button", { type: "button", title: "Show how its times are spread" });
    button.append(...cell.childNodes);
    cell.append(button);
    row.addEventListener("click", () => {
      pick(i);
      places.spread.scrollIntoView({ block: "nearest", behavior: "instant" });
    });
  }
  document.addEventListener("ncclscope-span", ({ detail }) => {
    by_size.in_span = detail && new Set(detail);
    by_size.draw();
  });
  by_size.draw();
  pick(Math.max(picked, 0));
}
