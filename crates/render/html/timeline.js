// Draws the run over time: curves that share one time axis, and above them steps, findings and deaths.
//
// A span can be dragged over the curves, or made with Shift and the arrow keys. It filters the tables for
// rows with calls in it: operations, ranks, functions and communicators. Figures in rows stay those of the
// whole run, and each table says whether it follows. The plot of operations by size follows by the event
// `ncclscope-span`, which names the operations with calls.
//
// Curves of other groups can be added above those of a group, and all of them can be laid into one plot.
// Shares of the time have one scale, so that a thousandth does not look as if it took all.

const report = JSON.parse(document.getElementById("report").textContent);
const { active } = JSON.parse(document.getElementById("more").textContent);
const place = document.getElementById("over-time");
// A report without a single time has neither.
const timeline = report.timeline ?? { buckets: 0, bucket_us: 1, late: [], marks: [] };
const buckets = timeline.buckets;
const width_us = timeline.bucket_us;

// ---- words and figures

function rate(value, what) {
  for (const [by, prefix] of [
    [1e15, "P"],
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (value >= by) return `${three(value / by)} ${prefix}${what}`;
  }
  return `${three(value)} ${what}`.trimEnd();
}

// Moments have as many digits as buckets can be told apart by.
const [moment_unit, moment_by] = buckets * width_us >= 1e6 ? ["s", 1e6] : ["ms", 1e3];
const digits = Math.max(0, Math.ceil(-Math.log10(width_us / moment_by)));
const moment = (us) => `${(us / moment_by).toFixed(digits)} ${moment_unit}`;
const span_words = ([from, to]) => `${moment(from * width_us)} to ${moment(to * width_us)}`;

// ---- what is drawn

// A curve of the report: the mean over ranks, in a band from the rank with least to the rank with most.
const curve = (field, name, text) => {
  const values = timeline[field];
  if (!values || !values.sum.some((v) => v > 0)) return null;
  return { name, text, line: values.mean, low: values.min, high: values.max };
};
// Buckets in which most calls have no GPU time: a share of the time would be too small there.
const is_dark = Array.from({ length: buckets }, (_, i) => {
  const { untimed, calls } = timeline;
  return Boolean(untimed) && untimed.sum[i] > 0.5 * calls.sum[i];
});
const lit = (values) => values.map((value, i) => (is_dark[i] ? null : value));

function shares(field, name) {
  const found = curve(field, name, percent);
  return found && { ...found, dark: true, line: lit(found.line), low: lit(found.low), high: lit(found.high) };
}
// A part of a rank's time has the colour of that part on the whole page. Which part a moment of a send
// belongs to is not known, so parts are left out where nearly all of NCCL's time is in sends.
const total = (field) => (timeline[field]?.sum ?? []).reduce((all, v) => all + (v ?? 0), 0);
const has_parts = total("waiting") + total("transfer") >= 0.01 * total("nccl");
const part = (name, of) => (has_parts ? of && { ...of, part: name } : null);
const rates = (field, name, what) => curve(field, name, (value) => rate(value, what));

function durations() {
  const band = timeline.durations_us;
  if (!band || !band.n.some((n) => n > 0)) return null;
  return {
    name: "GPU time of a call, median",
    text: time,
    line: band.p50,
    low: band.p10,
    high: band.p90,
    logarithmic: true,
    spread: "a tenth of the calls below and above",
  };
}

const who = (row) =>
  row.rank === null
    ? `pid ${row.pid} on ${row.host}`
    : `Rank ${row.rank}${row.device === null ? "" : ` (GPU ${row.device} on ${row.host})`}`;

const late = timeline.late
  .filter((row) => row.held_up_us.some((us) => us > 0))
  .map((row) => ({
    name: `${who(row)} held the others up`,
    text: percent,
    bars: row.held_up_us.map((us) => us / width_us),
  }));

// A figure that the node sampler read: the mean over GPUs or nodes, null where nothing was read.
const sampled = (field, name, text) => {
  const values = timeline.sampled?.[field];
  if (!values || !values.max.some((v) => v > 0)) return null;
  const { mean, min, max } = values;
  return { name, text, line: mean, low: min, high: max, none: "not sampled", over: "GPUs or nodes" };
};
const with_unit = (unit) => (value) => `${three(value)} ${unit}`;

const PRESETS = [
  {
    key: "waiting",
    title: "Waiting",
    curves: [
      shares("nccl", "In NCCL"),
      part("waiting", shares("waiting", "Waiting for the last rank")),
      part("transfer", shares("transfer", "Transfer")),
      shares("exposed", "Exposed communication"),
      ...late,
    ],
  },
  {
    key: "collectives",
    title: "Collectives",
    curves: [
      rates("collectives", "Collectives of a rank", "/s"),
      rates("bytes", "Bytes of a rank's calls", "B/s"),
      durations(),
    ],
  },
  {
    key: "p2p",
    title: "Point-to-point",
    needs: ["sends", "recvs"],
    curves: [
      rates("sends", "Sends of a rank", "/s"),
      rates("recvs", "Receives of a rank", "/s"),
      rates("bytes", "Bytes of a rank's calls", "B/s"),
    ],
  },
  {
    key: "network",
    title: "Network",
    needs: ["bytes_sent", "bytes_received"],
    curves: [
      rates("bytes_sent", "Sent by a rank", "B/s"),
      rates("bytes_received", "Received by a rank", "B/s"),
      shares("nic", "Data in the network's hands"),
    ],
  },
  {
    key: "power",
    title: "Power and hosts",
    curves: [
      sampled("power_w", "Power of a GPU", with_unit("W")),
      sampled("sm_mhz", "Clock of a GPU's SMs", with_unit("MHz")),
      sampled("nvlink_sent_bytes", "Sent over NVLink by a GPU", (value) => rate(value, "B/s")),
      sampled("cpus_busy", "CPUs that were busy, of a node", with_unit("CPUs")),
      sampled("job_cpus_busy", "CPUs that the job kept busy, of a node", with_unit("CPUs")),
      sampled("job_threads_ready", "Threads that waited for a CPU, of a node", with_unit("threads")),
      sampled("disk_read_bytes", "Read from disks by a node", (value) => rate(value, "B/s")),
      sampled("net_sent_bytes", "Sent by network interfaces of a node", (value) => rate(value, "B/s")),
    ],
  },
]
  .map((preset) => ({ ...preset, curves: preset.curves.filter(Boolean) }))
  .filter(
    (preset) =>
      preset.curves.length &&
      (!preset.needs || preset.needs.some((field) => timeline[field]?.sum.some((v) => v > 0))),
  );

// Every curve by its name, to be added to others.
const CURVES = new Map(PRESETS.flatMap((preset) => preset.curves.map((c) => [c.name, c])));

// The end of the scale of shares: the smallest of these that holds all.
const SHARE_ENDS = [0.1, 0.2, 0.5, 1];
function share_end(curves) {
  const shares = curves.filter((c) => c.text === percent);
  const values = shares.flatMap((c) => [...(c.high ?? c.bars), ...(c.line ?? [])]);
  const most = values.reduce((a, b) => Math.max(a, b ?? 0), 0);
  return SHARE_ENDS.find((end) => most <= end) ?? most;
}

// The mean of a curve in some buckets; null where nothing is known, or if it is of medians.
function mean_in(c, from, to) {
  if (c.spread) return null;
  const known = (c.bars ?? c.line).slice(from, to).filter((v) => v !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// The energy of all GPUs in some buckets, joules, and the part of them that was sampled.
function energy_in(from, to) {
  const gpus = report.nodes?.energy?.gpus;
  const power = timeline.sampled?.power_w?.mean.slice(from, to);
  const known = power?.filter((w) => w !== null) ?? [];
  if (!gpus || known.length === 0) return null;
  const joules = known.reduce((a, b) => a + b, 0) * gpus * (width_us / 1e6);
  return { joules, gpus, part: known.length / (to - from) };
}

// Pins: late ranks where they held up most, and deaths where they happened.
const pins = [
  ...timeline.late.map((row) => {
    const most = Math.max(...row.held_up_us);
    const sentence = report.findings.find(
      (f) => f.kind === "late_rank" && row.rank !== null && f.rank === row.rank,
    )?.sentence;
    const at_us = (row.held_up_us.indexOf(most) + 0.5) * width_us;
    return {
      at_us,
      text: `${sentence ?? `${who(row)} is late more often than chance gives.`} Most of it around here.`,
      death: false,
    };
  }),
  ...timeline.marks.map((mark) => ({ at_us: mark.at_us, text: mark.text, death: mark.kind === "dead_rank" })),
];

// ---- tables that follow a span

const has = (bits, from, to) => {
  for (let bucket = from; bucket < to; bucket++) {
    if ((parseInt(bits[bits.length - 1 - (bucket >> 2)] ?? "0", 16) >> (bucket & 3)) & 1) return true;
  }
  return false;
};

// By array of the report: whether a row of it has calls in the buckets from `from` to before `to`.
const some_operation = (is, from, to) =>
  report.operations.some((o, i) => is(o) && has(active.operations[i], from, to));
const FOLLOWS = {
  operations: (i, from, to) => has(active.operations[i], from, to),
  "ranks.rows": (i, from, to) => has(active.ranks[i], from, to),
  functions: (i, from, to) => some_operation((o) => o.function === report.functions[i].function, from, to),
  communicators: (i, from, to) =>
    some_operation((o) => o.communicator === report.communicators[i].communicator, from, to),
};
const tables = !place
  ? []
  : [...document.querySelectorAll("table[data-rows]")].map((table) => {
      const note = element("p", { class: "span-note" });
      note.hidden = true;
      const frame = table.closest(".frame");
      frame.before(note);
      return {
        rows: [...table.tBodies[0].rows],
        follows: FOLLOWS[table.dataset.rows],
        foot: table.tFoot,
        note,
      };
    });

function filter_tables(span) {
  for (const { rows, follows, foot, note } of tables) {
    note.hidden = !span;
    let shown = 0;
    for (const row of rows) {
      const is_out = Boolean(span && follows && !follows(Number(row.dataset.i), ...span));
      row.classList.toggle("out-of-span", is_out);
      shown += !is_out;
    }
    // The foot is of all rows.
    foot?.classList.toggle("out-of-span", shown < rows.length);
    if (!span) continue;
    note.textContent = follows
      ? `${shown} of ${rows.length} rows have calls from ${span_words(span)}. ` +
        "Their figures are of the whole run."
      : `This table is of the whole run: it does not follow the span that is selected.`;
  }
  const operations = span && report.operations.flatMap((_, i) => (FOLLOWS.operations(i, ...span) ? [i] : []));
  document.dispatchEvent(new CustomEvent("ncclscope-span", { detail: operations }));
}

// ---- the drawing

const HEIGHT = 74;
const NAME = 16;
// Colours of curves: not the two that look like waiting and transfer.
const HUES = [0, 3, 4, 5, 6, 7];
const GAP = 26;
const STRIP = 30;

class OverTime {
  constructor(figure) {
    this.figure = figure;
    this.preset = PRESETS[0];
    // Curves of other groups, by name.
    this.added = [];
    // All curves are in one plot.
    this.together = false;
    this.span = null;
    this.at = null;
    const choices = element("div", { class: "choices", role: "group", "aria-label": "Curves" });
    for (const preset of PRESETS) {
      const button = element("button", { type: "button", "data-preset": preset.key }, preset.title);
      button.addEventListener("click", () => {
        this.preset = preset;
        this.draw();
        this.say();
      });
      choices.append(button);
    }
    this.buttons = [...choices.children];
    this.adder = element("select", { "aria-label": "Add a curve above these" });
    this.adder.addEventListener("change", () => {
      if (this.adder.value) this.added.push(this.adder.value);
      this.draw();
      this.say();
    });
    const about = { type: "button", title: "Lay all curves over each other" };
    this.layer = element("button", about, "In one plot");
    this.layer.addEventListener("click", () => {
      this.together = !this.together;
      this.draw();
    });
    this.chips = element("span", { class: "chips" });
    if (CURVES.size > 1) choices.append(this.adder, this.layer, this.chips);
    this.choices = choices;
    this.place = element("div");
    this.tip = element("div", { class: "tip", role: "status" });
    this.tip.hidden = true;
    this.selected = element("p", { class: "selected", role: "status" });
    this.hint = element(
      "p",
      { class: "hint" },
      "Line: mean over ranks; band: the rank with least to the rank with most. " +
        (is_dark.includes(true) ? "Grey: most calls have no GPU time. " : "") +
        "Drag over a span to see which rows of the tables have calls in it. " +
        "Arrow keys move, Shift and arrow keys select, Escape shows all.",
    );
    figure.append(choices, this.selected, this.place, this.tip, this.hint);
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.drawn_width) this.draw();
    }).observe(this.place);
    this.draw();
    this.select(null);
  }

  x(us) {
    const { left, right } = this.box;
    return left + ((right - left) * us) / (buckets * width_us);
  }

  // What is shown: what was added stands above.
  curves() {
    const own = this.preset.curves;
    return [...this.added.map((name) => CURVES.get(name)).filter((c) => !own.includes(c)), ...own];
  }

  choose() {
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(button.dataset.preset === this.preset.key));
    this.layer.setAttribute("aria-pressed", String(this.together));
    const shown = new Set(this.curves());
    const groups = PRESETS.map((preset) => {
      const left = preset.curves.filter((c) => !shown.has(c));
      return element("optgroup", { label: preset.title }, ...left.map((c) => element("option", {}, c.name)));
    });
    const some = groups.filter((of) => of.children.length > 0);
    this.adder.replaceChildren(element("option", { value: "" }, "Add a curve\u2026"), ...some);
    const chips = this.added.map((name) => {
      const chip = element("button", { type: "button", title: "Take this curve away" }, `\u2715 ${name}`);
      chip.addEventListener("click", () => {
        this.added = this.added.filter((other) => other !== name);
        this.draw();
        this.say();
      });
      return chip;
    });
    this.chips.replaceChildren(...chips);
  }

  draw() {
    this.choose();
    const focused = this.place.contains(document.activeElement);
    this.drawn_width = this.place.clientWidth;
    const width = Math.max(260, this.place.clientWidth);
    const curves = this.curves();
    // In one plot, each has a line of its own for its name.
    const top_of = (i) => (this.together ? NAME * (i + 1) : i * (HEIGHT + GAP) + GAP);
    const plots = this.together ? NAME * curves.length + 8 + 2 * HEIGHT : curves.length * (HEIGHT + GAP);
    const height = STRIP + plots + 40;
    this.share_end = share_end(curves);
    this.box = { width, height, left: 4, right: width - 4, top: STRIP, bottom: height - 36 };
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      tabindex: "0",
      "aria-label": `${this.preset.title} over time: arrow keys read the values`,
    });
    this.svg = svg;
    this.place.replaceChildren(svg);
    this.x_axis();
    curves.forEach((c, i) => this.curve(c, i, STRIP + top_of(i)));
    this.strip();
    this.shade = shape("rect", { class: "span", y: STRIP, height: this.box.bottom - STRIP, x: 0, width: 0 });
    this.cross = shape("path", { class: "cross", d: "" });
    svg.append(this.shade, this.cross);
    this.show_span();
    this.listen();
    if (focused) svg.focus();
  }

  x_axis() {
    const { left, right, top, bottom } = this.box;
    const end = buckets * width_us;
    this.svg.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    for (const tick of even_ticks(0, end / moment_by, Math.max(2, Math.floor((right - left) / 80)))) {
      const x = this.x(tick * moment_by);
      this.svg.append(shape("path", { class: "grid", d: `M${x} ${top}V${bottom}` }));
      const anchor = x < left + 20 ? "start" : x > right - 20 ? "end" : "middle";
      this.svg.append(
        shape("text", { x, y: bottom + 16, "text-anchor": anchor }, `${+tick.toPrecision(6)} ${moment_unit}`),
      );
    }
    const title = "since the first moment that was recorded";
    this.svg.append(shape("text", { x: right, y: bottom + 31, "text-anchor": "end" }, title));
  }

  // A curve; its name stands above `top`.
  curve(c, index, top) {
    const { left, right } = this.box;
    const tall = this.together ? 2 * HEIGHT : HEIGHT;
    const bottom = this.together ? this.box.bottom - 4 : top + HEIGHT;
    const known = [...(c.high ?? c.bars), ...(c.line ?? [])].filter((v) => v !== null && v > 0);
    const most = Math.max(...known, 1e-12);
    const least = Math.min(...known);
    const low = c.logarithmic ? Math.log(least / 1.2) : 0;
    const end_of_scale = c.text === percent ? this.share_end : most * 1.05;
    const high = c.logarithmic ? Math.log(most * 1.2) : end_of_scale;
    const y = (v) =>
      bottom - (tall * ((c.logarithmic ? Math.log(Math.max(v, least / 1.2)) : v) - low)) / (high - low);
    const hue = HUES[index % HUES.length];
    const group = shape("g", { class: `curve c${hue}${c.part ? ` ${c.part}` : ""}` });
    const x = (bucket) => this.x(bucket * width_us);
    const steps = (values) =>
      values
        .map((v, i) =>
          v === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${x(i)} ${y(v)}H${x(i + 1)}`,
        )
        .join("");
    // Areas would hide each other.
    if (c.dark && !this.together) {
      const d = is_dark.map((dark, i) => (dark ? `M${x(i)} ${top}H${x(i + 1)}V${bottom}H${x(i)}z` : ""));
      group.append(shape("path", { class: "dark", d: d.join("") }));
    }
    if (c.bars && !this.together) {
      const path = c.bars
        .map((v, i) => (v > 0 ? `M${x(i)} ${bottom}V${y(v)}H${x(i + 1)}V${bottom}z` : ""))
        .join("");
      group.append(shape("path", { class: "held", d: path }));
    } else if (this.together) {
      group.append(shape("path", { class: "line", d: steps(c.bars ?? c.line) }));
    } else {
      const areas = c.low
        .map((v, i) => (v === null ? "" : `M${x(i)} ${y(v)}H${x(i + 1)}V${y(c.high[i])}H${x(i)}z`))
        .join("");
      group.append(
        shape("path", { class: "band", d: areas }),
        shape("path", { class: "line", d: steps(c.line) }),
      );
    }
    group.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    group.append(shape("rect", { class: "key", x: left, y: top - 14, width: 9, height: 9 }));
    const name = shape("text", { class: "title", x: left + 14, y: top - 6 }, c.name);
    // What rounds to nothing is not nothing.
    const told = known.length === 0 ? "none" : c.text(most).replace(/^0\.0 %$/, "under 0.1 %");
    const limit = /^[nu]/.test(told) ? told : `at most ${told}`;
    const end = shape("text", { x: right, y: top - 6, "text-anchor": "end" }, limit);
    group.append(name, end);
    this.svg.append(group);
    // On a phone there is room for the figure alone.
    if (name.getComputedTextLength() + end.getComputedTextLength() + 24 > right - left)
      end.textContent = told;
  }

  strip() {
    const { steps } = timeline;
    const group = shape("g", { class: "strip" });
    for (const at of steps?.begins_us ?? [])
      group.append(shape("path", { class: "step", d: `M${this.x(at)} ${STRIP - 8}v8` }));
    if (steps) {
      const which = steps.every > 1 ? `every ${steps.every} steps` : "steps";
      group.append(
        shape("text", { x: this.box.left, y: 11 }, `ticks: ${which} of rank ${steps.rank ?? "?"}`),
      );
    }
    for (const pin of pins) {
      const x = Math.min(Math.max(this.x(pin.at_us), this.box.left + 5), this.box.right - 5);
      const d = pin.death ? `M${x - 5} 3l10 10m0 -10l-10 10` : `M${x} 16l-6 -9a6 6 0 1 1 12 0z`;
      const mark = shape("path", {
        class: pin.death ? "death" : "pin",
        d,
        tabindex: "0",
        role: "img",
        "aria-label": pin.text,
      });
      const show = () => this.show_tip(x, 20, pin.death ? "A rank died" : "Finding", [pin.text]);
      mark.addEventListener("pointerenter", show);
      mark.addEventListener("focus", show);
      mark.addEventListener("blur", () => (this.tip.hidden = true));
      group.append(mark);
    }
    this.svg.append(group);
  }

  bucket_at(event) {
    const at = this.svg.getBoundingClientRect();
    const x = ((event.clientX - at.left) * this.box.width) / at.width;
    const share = (x - this.box.left) / (this.box.right - this.box.left);
    return Math.min(Math.max(Math.floor(share * buckets), 0), buckets - 1);
  }

  listen() {
    const { svg } = this;
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest(".pin, .death")) return;
      from = this.bucket_at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.target.closest?.(".pin, .death")) return;
      const now = this.bucket_at(event);
      if (from === null) return this.point_at(now);
      this.tip.hidden = true;
      this.shown_span([Math.min(from, now), Math.max(from, now) + 1]);
    });
    svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const now = this.bucket_at(event);
      // A click shows all again.
      this.select(now === from ? null : [Math.min(from, now), Math.max(from, now) + 1]);
      this.anchor = null;
      from = null;
    });
    svg.addEventListener("pointercancel", () => {
      from = null;
      this.show_span();
    });
    svg.addEventListener("pointerleave", () => this.point_at(null));
    svg.addEventListener("blur", () => this.point_at(null));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.anchor = null;
        return this.select(null);
      }
      const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -buckets, End: buckets }[
        event.key
      ];
      if (!by || event.target !== svg) return;
      event.preventDefault();
      const was = this.at ?? (by > 0 ? -1 : buckets);
      const now = Math.min(Math.max(was + by, 0), buckets - 1);
      if (event.shiftKey) {
        this.anchor ??= Math.min(Math.max(was, 0), buckets - 1);
        this.select([Math.min(this.anchor, now), Math.max(this.anchor, now) + 1]);
      } else {
        this.anchor = null;
      }
      this.point_at(now);
    });
  }

  point_at(bucket) {
    this.at = bucket;
    if (bucket === null) {
      this.tip.hidden = true;
      this.cross.setAttribute("d", "");
      return;
    }
    const x = this.x((bucket + 0.5) * width_us);
    this.cross.setAttribute("d", `M${x} ${STRIP}V${this.box.bottom}`);
    const lines = this.curves().map((c) => {
      if (c.bars) return `${c.name}: ${c.text(c.bars[bucket])} of the time`;
      if (c.dark && is_dark[bucket]) return `${c.name}: not known, most calls have no GPU time`;
      if (c.line[bucket] === null) return `${c.name}: ${c.none ?? "no call"}`;
      const around = c.spread ? ` (${c.text(c.low[bucket])} to ${c.text(c.high[bucket])}: ${c.spread})` : "";
      const ranks =
        !c.spread && c.low[bucket] !== c.high[bucket]
          ? ` (${c.text(c.low[bucket])} to ${c.text(c.high[bucket])} over ${c.over ?? "ranks"})`
          : "";
      return `${c.name}: ${c.text(c.line[bucket])}${around}${ranks}`;
    });
    this.show_tip(x, STRIP + 8, span_words([bucket, bucket + 1]), lines);
  }

  show_tip(x, y, title, lines) {
    this.tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    this.tip.hidden = false;
    const scale = this.place.clientWidth / this.box.width;
    const most = this.figure.clientWidth - this.tip.offsetWidth;
    const beside = x * scale + 14 > most ? x * scale - this.tip.offsetWidth - 14 : x * scale + 14;
    this.tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    this.tip.style.top = `${this.place.offsetTop + y * scale}px`;
  }

  shown_span([from, to]) {
    const x = this.x(from * width_us);
    this.shade.setAttribute("x", x);
    this.shade.setAttribute("width", this.x(to * width_us) - x);
  }

  show_span() {
    this.shown_span(this.span ?? [0, 0]);
  }

  select(span) {
    this.span = span;
    this.show_span();
    this.say();
    filter_tables(span);
  }

  // Says what is in the span, in figures of what is shown.
  say() {
    const { span } = this;
    const [from, to] = span ?? [0, buckets];
    const total = (field) =>
      timeline[field] ? timeline[field].sum.slice(from, to).reduce((a, b) => a + b, 0) : null;
    const length = (to - from) * width_us * timeline.ranks;
    const parts = [
      `${total("calls").toLocaleString("en")} calls`,
      size(total("bytes")),
      `${percent(total("nccl") / length)} of the time in NCCL`,
    ];
    // Known of little, waiting says nothing about the rest.
    const known = total("waiting") + total("transfer");
    if (timeline.waiting && 2 * known >= total("nccl"))
      parts.push(`${percent(total("waiting") / length)} waiting for the last rank`);
    const energy = energy_in(from, to);
    if (energy) {
      const of = energy.part < 0.995 ? `, of ${percent(energy.part)} of it` : "";
      parts.push(`${rate(energy.joules, "J")} by ${energy.gpus} GPU${energy.gpus === 1 ? "" : "s"}${of}`);
    }
    const means = this.curves().flatMap((c) => {
      const mean = mean_in(c, from, to);
      return mean === null ? [] : [`${c.name} ${c.text(mean)}`];
    });
    const words = `${span ? span_words(span) : "The whole run"}: ${parts.join(", ")}.`;
    this.selected.replaceChildren(words);
    const text = `Means: ${means.join("; ")}.`;
    if (means.length > 0) this.selected.append(element("span", { class: "means" }, text));
    if (span) {
      const clear = element("button", { type: "button" }, "Show all");
      clear.addEventListener("click", () => this.select(null));
      this.selected.append(" ", clear);
    }
  }
}

if (place && PRESETS.length) {
  place.hidden = false;
  document.getElementById("over-time-without").hidden = true;
  new OverTime(place);
}
