// The plot of how the times of one operation are spread.

import { decimal_ticks, even_ticks, log_scale, widened } from "../scales.js";
import { element, shape } from "../shapes.js";
import { percent, time } from "../spelling.js";
import { histograms, report } from "./data.js";
import { buckets_of } from "./histogram.js";
import { label } from "./operation_words.js";
import { choice, Plot } from "./plot.js";

export const SPREADS = [
  { key: "time", field: "time_us", title: "GPU time of its calls", what: "calls" },
  { key: "shortest", field: "shortest_us", title: "GPU time of the shortest ranks", what: "operations" },
  { key: "host", field: "host_us", title: "host time of its calls", what: "calls" },
];

export class Spread extends Plot {
  constructor(figure, picks) {
    super(figure, "How the times of one operation are spread");
    this.picks = picks;
    this.wanted = "time";
    this.hint = element("p", { class: "hint" });
    figure.append(this.hint);
  }

  choose() {
    const picked = this.picks.now();
    const there = SPREADS.filter((s) => histograms[picked]?.[s.key]);
    this.at = undefined;
    this.spread = there.find((s) => s.key === this.wanted) ?? there[0];
    const list = report.operations
      .map((operation, i) => [String(i), label(operation)])
      .filter(([i]) => SPREADS.some((s) => histograms[i]?.[s.key]));
    this.choices.replaceChildren();
    if (list.length)
      this.choices.append(choice("Of", "Operation", list, String(picked), (i) => this.picks.pick(Number(i))));
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
    const picked = this.picks.now();
    const histogram = histograms[picked][this.spread.key];
    const times = report.operations[picked][this.spread.field];
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
    this.box.top += 12 * Math.max(0, ...marks.map((mark) => mark.row));
    const { top } = this.box;
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
