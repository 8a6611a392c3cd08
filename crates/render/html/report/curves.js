// The curves of the run over time in groups, and what is marked above them.

import { percent, three, time } from "../spelling.js";
import { buckets, rate, timeline, width_us } from "./buckets.js";
import { report } from "./data.js";

// A curve of the report: the mean over ranks, in a band from the rank with least to the rank with most.
const curve = (field, name, text) => {
  const values = timeline[field];
  if (!values || !values.sum.some((v) => v > 0)) return null;
  return { name, text, line: values.mean, low: values.min, high: values.max };
};
// Buckets in which most calls have no GPU time: a share of the time would be too small there.
export const is_dark = Array.from({ length: buckets }, (_, i) => {
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

// The mean over GPUs, nodes or ranks; null where nothing is known, as before the node sampler began.
const of_places = (values, rest) => {
  if (!values || !values.max.some((v) => v > 0)) return null;
  const { mean, min, max } = values;
  return { line: mean, low: min, high: max, ...rest };
};
const sampled = (field, name, text, rest) =>
  of_places(timeline.sampled?.[field], {
    name,
    text,
    none: "not sampled",
    over: "GPUs or nodes",
    ...rest,
  });
const bytes_per_second = (value) => rate(value, "B/s");
// Less than one CPU, or a megabyte in a second, is little: it must not fill a plot.
const ONE = { least: 1 };
const MEGABYTE = { least: 1e6 };
const with_unit = (unit) => (value) => `${three(value)} ${unit}`;

export const PRESETS = [
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
      sampled("nvlink_sent_bytes", "Sent over NVLink by a GPU", bytes_per_second),
      sampled("nvlink_received_bytes", "Received over NVLink by a GPU", bytes_per_second),
      sampled("nvlink_link_sent_bytes", "Sent over one NVLink", bytes_per_second, { over: "links" }),
      sampled("nvlink_link_received_bytes", "Received over one NVLink", bytes_per_second, { over: "links" }),
      of_places(timeline.mpi, {
        name: "Inside of MPI, of a rank's thread",
        text: percent,
        none: "not seen",
        over: "ranks",
      }),
      sampled("cpus_busy", "CPUs that were busy, of a node", with_unit("CPUs"), ONE),
      sampled("job_cpus_busy", "CPUs that the job kept busy, of a node", with_unit("CPUs"), ONE),
      sampled("job_threads_ready", "Threads that waited for a CPU, of a node", with_unit("threads"), ONE),
      sampled("disk_read_bytes", "Read from disks by a node", bytes_per_second, MEGABYTE),
      sampled("disk_written_bytes", "Written to disks by a node", bytes_per_second, MEGABYTE),
      sampled("net_sent_bytes", "Sent by network interfaces of a node", bytes_per_second, MEGABYTE),
      sampled("net_received_bytes", "Received by network interfaces of a node", bytes_per_second, MEGABYTE),
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
export const CURVES = new Map(PRESETS.flatMap((preset) => preset.curves.map((c) => [c.name, c])));

// Pins: late ranks where they held up most, and deaths where they happened.
export const pins = [
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
