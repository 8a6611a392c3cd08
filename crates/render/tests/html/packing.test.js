import assert from "node:assert/strict";
import { test } from "node:test";
import { mixed_rows } from "../../html/viewer/mixing.js";
import { packed_rows } from "../../html/viewer/packing.js";

const lane = (rank, more = {}) => ({
  who: `rank ${rank}`,
  role: "data parallel",
  host: "node0",
  stream: "0x1",
  thread: null,
  kernels: false,
  events: false,
  depth: 0,
  types: [],
  waited_us: 100,
  ended: null,
  ...more,
});
const SHOWN = {
  sort: false,
  kernels: true,
  events: true,
  hidden: new Set(),
  by: "communicator",
  group: "",
  words: "",
};
const packed = (lanes, more = {}) =>
  packed_rows(lanes, { ...SHOWN, ...more }).map((row) => [row.title, row.lanes]);

test("lanes of one communicator share a row, whichever stream and thread they have", () => {
  const lanes = [
    lane(0, { thread: 1 }),
    lane(0, { thread: 2, stream: "0x2" }),
    lane(0, { role: "tensor parallel" }),
  ];
  assert.deepEqual(packed(lanes), [
    ["rank 0: data parallel", [0, 1]],
    ["rank 0: tensor parallel", [2]],
  ]);
  assert.deepEqual(packed(lanes, { by: "rank" }), [["rank 0", [0, 1, 2]]]);
  assert.deepEqual(packed(lanes, { by: "stream" }), [
    ["rank 0: stream 0x1", [0, 2]],
    ["rank 0: stream 0x2", [1]],
  ]);
  // What has no thread has a row of its own.
  assert.deepEqual(packed(lanes, { by: "thread" }), [
    ["rank 0: thread 1", [0]],
    ["rank 0: thread 2", [1]],
    ["rank 0: tensor parallel", [2]],
  ]);
});

test("every lane is in one row, in any view of them", () => {
  const lanes = [0, 1, 2].flatMap((rank) => [
    lane(rank, { thread: rank % 2 ? 7 : null }),
    lane(rank, { kernels: true, role: "kernels", stream: "0x7" }),
    lane(rank, { events: true, role: "events", depth: 0, types: ["Coll"] }),
    lane(rank, { events: true, role: "events", depth: 1, types: ["ProxyOp"] }),
  ]);
  for (const by of ["communicator", "stream", "thread", "rank"]) {
    for (const group of ["", "host", "communicator"]) {
      for (const sort of [false, true]) {
        const all = packed(lanes, { by, group, sort }).flatMap(([, of]) => of);
        assert.deepEqual(
          all.sort((a, b) => a - b),
          lanes.map((_, at) => at),
        );
      }
    }
  }
});

test("rows that differ have names that differ, also where there is room for few letters", () => {
  const lanes = [
    lane(0),
    lane(0, { role: "tensor parallel" }),
    lane(0, { kernels: true, role: "kernels, stream 7", stream: "0x7" }),
    lane(0, { kernels: true, role: "kernels, stream 9", stream: "0x9" }),
    lane(1),
    lane(1, { events: true, role: "proxy", types: ["ProxyOp"] }),
    lane(1, { events: true, role: "proxy", types: ["ProxyOp"] }),
  ];
  const rows = packed_rows(lanes, SHOWN);
  const shorts = rows.map((row) => row.short);
  const wanted = ["rank 0", "rank 0 (2)", "rank 0 K", "rank 0 K (2)", "rank 1", "rank 1 E", "rank 1 E (2)"];
  assert.deepEqual(shorts, wanted);
  assert.equal(new Set(rows.map((row) => row.title)).size, lanes.length);
});

test("a search is for whole numbers, and several may be asked for", () => {
  const lanes = [lane(1), lane(2), lane(12)];
  assert.deepEqual(packed(lanes, { words: "rank 1" }), [["rank 1: data parallel", [0]]]);
  assert.equal(packed(lanes, { words: "Rank 2, rank 12" }).length, 2);
  assert.equal(packed(lanes, { words: "node0" }).length, 3);
  assert.equal(packed(lanes, { words: "(" }).length, 0);
});

test("late ranks come first, and kernels stay below the calls of their rank", () => {
  const kernels = (rank) => lane(rank, { kernels: true, role: "kernels", waited_us: 0 });
  const lanes = [lane(0, { waited_us: 900 }), kernels(0), lane(1, { waited_us: 5 }), kernels(1)];
  assert.deepEqual(
    packed(lanes, { sort: true }).map(([, of]) => of[0]),
    [2, 3, 0, 1],
  );
  // Kernels in graphs wait, and no call does.
  const graph = (rank, waited_us) => lane(rank, { kernels: true, role: "kernels", waited_us });
  const in_graphs = [lane(0, { waited_us: 0 }), graph(0, 70), lane(1, { waited_us: 0 }), graph(1, 2)];
  assert.deepEqual(
    packed(in_graphs, { sort: true }).map(([, of]) => of[0]),
    [2, 3, 0, 1],
  );
});

test("events are hidden by type, and a row whose types are all hidden goes", () => {
  const of = (types) => lane(0, { events: true, depth: types.length, types });
  const lanes = [lane(0), of(["Coll"]), of(["Coll", "P2p"])];
  assert.equal(packed(lanes, { events: false }).length, 1);
  assert.equal(packed(lanes, { hidden: new Set(["Coll"]) }).length, 2);
  assert.equal(packed(lanes, { hidden: new Set(["Coll", "P2p"]) }).length, 1);
});

test("groups have a heading each, without lanes", () => {
  const lanes = [lane(0), lane(1, { host: "node1" }), lane(2)];
  assert.deepEqual(packed(lanes, { group: "host" }), [
    ["node0", []],
    ["rank 0: data parallel", [0]],
    ["rank 2: data parallel", [2]],
    ["node1", []],
    ["rank 1: data parallel", [1]],
  ]);
});

// Shares of waiting, transfer and the rest, of 255, of one bin in each lane.
const mixed = (cells, rows, tall) => {
  const lanes = rows.flatMap((row) => row.lanes);
  return mixed_rows({ bins: 1, cells: Uint8Array.from(cells.flat()) }, lanes, rows, tall);
};
const row = (at, more = {}) => ({ who: `rank ${at}`, lanes: [at], is_kernels: false, ...more });

test("a line of pixels for several rows shows the one that waits least, of those with most time", () => {
  const cells = [
    [200, 20, 0],
    [2, 210, 0],
    // Hardly any of the time in NCCL: it says nothing.
    [0, 9, 0],
    [180, 30, 0],
  ];
  const found = mixed(
    cells,
    [0, 1, 2, 3].map((at) => row(at)),
    1,
  );
  assert.deepEqual([...found.mixed], [2, 210, 0, 0]);
  const two = mixed(
    cells,
    [0, 1, 2, 3].map((at) => row(at)),
    2,
  );
  assert.deepEqual([...two.mixed], [2, 210, 0, 0, 180, 30, 0, 0]);
});

test("ranks that wait are counted by rank, however many lanes of it wait", () => {
  const cells = [
    [255, 0, 0],
    [255, 0, 0],
    [0, 255, 0],
    [255, 0, 0],
    [51, 0, 204],
  ];
  const kernels = (at, who) => row(at, { who, is_kernels: true });
  const rows = [row(0, { lanes: [0, 1] }), row(2), kernels(3, "rank 0"), kernels(4, "rank 2")];
  const found = mixed(cells, rows, 4);
  assert.equal(found.ranks, 2);
  // All of rank 0, and a fifth of rank 2: in a kernel that has no call.
  assert.ok(Math.abs(found.waiting[0] - 1.2) < 1e-6, `${found.waiting}`);
  assert.deepEqual([...found.mixed.subarray(12)], [51, 0, 0, 204]);
});
