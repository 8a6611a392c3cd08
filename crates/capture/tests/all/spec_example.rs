//! The worked example of SPEC.md is what the code writes and reads.

use capture::block::{self, Block, BlockKind};
use capture::format::FORMAT;
use capture::live::part;
use capture::rows::definitions::{self, Definition};
use capture::rows::{Decoder, Encoder, Record, Shape, Shapes, Ticks};

fn record() -> Record {
    Record {
        ticket: 5,
        shape: Shape {
            comm: 1,
            func: 1,
            count: 1024,
            root: -1,
            nchannels: 2,
            parts: part::ENQUEUED | part::ENQUEUE_DONE | part::LAUNCHED | part::EVENTS,
            ..Shape::default()
        },
        t_api: Ticks(0x1_0000),
        t_end: Ticks(0x1_0100),
        group: 6,
        seq: 4,
        t_launch0: Ticks(0x1_0020),
        event_start: Ticks(0x1_0400),
        event_ns: 1024,
        event_error: 600,
        ..Record::default()
    }
}

/// The bytes of the fenced block marked `hex`; what follows `//` in a line is comment.
fn example() -> Vec<u8> {
    let spec = include_str!("../../SPEC.md");
    let (_, rest) = spec.split_once("```hex\n").expect("an example");
    let (hex, _) = rest.split_once("```").expect("its end");
    hex.lines()
        .flat_map(|line| line.split("//").next().unwrap_or("").split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex"))
        .collect()
}

#[test]
fn the_example_reads_as_it_says() {
    let bytes = example();
    assert_eq!(block::trace_id(&bytes), Ok(0x0123_4567_89ab_cdef));
    let mut blocks: Vec<(u16, Vec<u8>)> = Vec::new();
    let damage = |damage| panic!("{damage:?}");
    block::read(
        &bytes,
        |b: Block| blocks.push((b.kind, b.payload.to_vec())),
        damage,
    );
    let kinds: Vec<u16> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        [
            BlockKind::Process as u16,
            BlockKind::Definitions as u16,
            BlockKind::Rows as u16
        ]
    );
    assert_eq!(blocks[0].1, b"host=n1\npid=7\n");
    assert_eq!(
        definitions::read(&blocks[1].1),
        [Definition::Text(1, b"AllReduce")]
    );
    let mut shapes = Shapes::default();
    let outline = shapes
        .outline(FORMAT.major, &blocks[2].1)
        .expect("well formed");
    let mut rows = Vec::new();
    let shapeless = Decoder::new().decode(&shapes, &outline, &blocks[2].1, |row, rest| {
        assert_eq!(rest, None);
        rows.push((*row, shapes.list()[row.shape as usize]));
    });
    let record = record();
    let expected = (record.parts(0).0, record.shape);
    assert_eq!((rows, shapeless), (vec![expected], Some(0)));
}

#[test]
fn the_example_is_what_is_written() {
    let mut bytes = block::file_header(0x0123_4567_89ab_cdef).to_vec();
    let mut put = |kind, number, payload: &[u8]| {
        let start = block::begin(&mut bytes);
        bytes.extend(payload);
        block::finish(&mut bytes, start, kind, number);
    };
    put(BlockKind::Process, 0, b"host=n1\npid=7\n");
    put(BlockKind::Definitions, 1, b"\x01\x01\x09AllReduce");
    let mut rows = Vec::new();
    Encoder::new().encode(&mut rows, &[record()]);
    put(BlockKind::Rows, 2, &rows);
    let hex: Vec<String> = bytes
        .chunks(16)
        .map(|row| row.iter().map(|b| format!("{b:02x} ")).collect())
        .collect();
    assert_eq!(bytes, example(), "the code writes\n{}", hex.join("\n"));
}
