// The plot of time or bandwidth by size. Marks differ in shape as well as in colour.

import { binary_ticks, decimal_ticks, log_scale, widened } from "../scales.js";
import { element, shape } from "../shapes.js";
import { size, three, time } from "../spelling.js";
import { report } from "./data.js";
import { communicator_of, label, name_of, way_of } from "./operation_words.js";
import { COLOURS, choice, dot, Plot } from "./plot.js";

const statistic = (field) => ({ value: (o) => o[field]?.p50 ?? null, spread: (o) => o[field] });
const MEASURES = [
  { key: "time", title: "GPU time of a call, µs", ...statistic("time_us") },
  { key: "shortest", title: "GPU time of the shortest rank, µs", ...statistic("shortest_us") },
  { key: "host", title: "Host time of a call, µs", ...statistic("host_us") },
  { key: "busbw", title: "busbw of the operation, GB/s", value: (o) => o.busbw_gb_per_s },
  { key: "call_busbw", title: "busbw of the median call, GB/s", value: (o) => o.call_busbw_gb_per_s },
];

export class BySize extends Plot {
  constructor(figure, picks) {
    super(figure, "Time or bandwidth by size");
    this.picks = picks;
    this.measures = MEASURES.filter((m) => report.operations.some((o) => o.bytes > 0 && m.value(o) > 0));
    this.measure = this.measures[0];
    const functions = [...new Set(report.operations.map(name_of))];
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
    const wanted = report.operations
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
    this.picked(this.picks.now());

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
      if (found) this.picks.pick(found.i);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const order = [...this.points].sort((a, b) => a.x - b.x || a.y - b.y || a.i - b.i);
      const now = order.findIndex((p) => p.i === this.picks.now());
      const next = order[(now + step + order.length) % order.length];
      this.picks.pick(next.i);
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
      const figures = known.map((key) => `${key} ${three(times[key])}`).join("  ");
      lines.push(`${figures} µs`);
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
