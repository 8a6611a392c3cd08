//! SPEC.md has every field of a live part: its name, offset and size as in the code.

use capture::graphs::{Exec, Launch};
use capture::live::{flag, part, verdict, Comm, Group, Header, Row, Text, Total, Undo};
use capture::net_op::NetOp;

/// A field: offset, bytes, name.
type Field = (usize, usize, &'static str);

fn size<T, U>(_: impl Fn(&T) -> &U) -> usize {
    std::mem::size_of::<U>()
}

/// All fields of a struct, in the order of their offsets. One that is left out does not compile.
macro_rules! fields {
    ($type:ident: $($field:ident)*) => {{
        let _ = |all: &$type| {
            let $type { $($field: _),* } = all;
        };
        let mut fields: Vec<Field> = vec![$((
            std::mem::offset_of!($type, $field),
            size(|all: &$type| &all.$field),
            stringify!($field),
        )),*];
        fields.sort();
        (stringify!($type), std::mem::size_of::<$type>(), fields)
    }};
}

fn of_code() -> Vec<(&'static str, usize, Vec<Field>)> {
    vec![
        fields!(Header: magic major minor size sections trace_id pid clock pid_start pid_namespace first last
            anchor_version born drained sealed folded lost odd staged_base staged_len block_number state
            write_errno groups_seen totals_used pages_used pages_full undo unrequested process_len process
            trace_number cuda_error later_sections graph_launches graph_launches_taken
            graph_launches_untimed unplaced graphs_full windows_off windows_code windows_yielded
            graph_sight required optional chain_inside chain_thread chain_errors),
        fields!(Undo: ticket entry bucket before bucket_before),
        fields!(Text: len bytes),
        fields!(Comm: uid abi hash nranks nnodes rank generation device finalized t_init t_final gpu name_len
            tid name),
        fields!(Group: word comm calls t_start t_closing t_stop first_row launches captured depth t_launch),
        fields!(Total: state comm count names flags nchannels spare rowless calls timed sum min max host
            pages),
        fields!(Row: word t_api count group stream comm root func datatype flags spare_a template t_end
            t_launch0 t_launch1 t_enqueue seq user_tag peer algorithm protocol variant nchannels nwarps
            error parts ce_batches spare_b2 event thread stamp_start stamp_stop k_seen k_started k_stopped
            verdict spare_c phase_stop spare_c2 ops_started ops_stopped steps net_seen bytes_sent
            bytes_received waits net_longest net_link event_start event_ns event_error waiter send_buffer
            recv_buffer waited stack on_gpu driver asked),
        fields!(NetOp: word row t_start t_step bytes peer nsteps done channel send begun open held steps),
        fields!(Exec: number contents launches entered returned stream instantiated destroyed calls before),
        fields!(Launch: word entered stream exec took),
    ]
}

const SPEC: &str = include_str!("../../SPEC.md");

/// Bytes of a type as SPEC.md has it: `u64`, or `u64×3`.
fn bytes(text: &str) -> usize {
    let mut factors = text.split('×');
    let element = match factors.next().expect("a type") {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" => 8,
        "Undo" => std::mem::size_of::<Undo>(),
        other => panic!("no such type: {other}"),
    };
    factors
        .map(|n| n.parse::<usize>().expect("a number"))
        .fold(element, |product, n| product * n)
}

/// The fields of the table behind `**NAME** (SIZE)`, and the size.
fn of_spec(name: &str) -> (usize, Vec<Field>) {
    let (_, rest) = SPEC
        .split_once(&format!("**{name}** ("))
        .unwrap_or_else(|| panic!("{name} is not in SPEC.md"));
    let (size, rest) = rest.split_once(')').expect("its size");
    let (_, table) = rest
        .split_once("| at | type | field | |\n|---|---|---|---|\n")
        .expect("a table");
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let fields = lines.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let at = cells[1].parse().expect("an offset");
        (at, bytes(cells[2]), cells[3].trim_matches('`'))
    });
    (size.parse().expect("a number"), fields.collect())
}

#[test]
fn every_field_is_where_the_spec_has_it() {
    for (name, size, fields) in of_code() {
        let (said, found) = of_spec(name);
        assert_eq!(found, fields, "{name}");
        // The header's page is kept for more.
        assert_eq!(said, if name == "Header" { 4096 } else { size }, "{name}");
    }
}

#[test]
fn every_bit_is_in_the_spec() {
    let flags = [
        (flag::CAPTURED.into(), "captured"),
        (flag::REPLAY.into(), "replay"),
        (flag::P2P.into(), "send or receive"),
        (flag::LEGACY.into(), "below ABI v5"),
        (flag::TIMED.into(), "timed, in totals only"),
    ];
    let parts = [
        (part::ENQUEUED, "enqueued"),
        (part::ENQUEUE_DONE, "enqueueing done"),
        (part::LAUNCHED, "launched"),
        (part::COPY_ENGINE, "copy engine"),
        (part::SYMMETRIC, "symmetric"),
        (part::LAUNCH_AMBIGUOUS, "launch ambiguous"),
        (part::EVENTS, "CUDA events"),
        (part::UNSAMPLED, "not sampled"),
    ];
    let verdicts = [
        (verdict::REPEATED, "repeated"),
        (verdict::BACKWARDS, "backwards"),
        (verdict::NEGATIVE, "negative"),
        (verdict::FUSED, "fused"),
        (verdict::MISSING, "missing"),
        (verdict::LATE, "late"),
    ];
    for (name, bits) in [
        ("flags", &flags[..]),
        ("parts", &parts[..]),
        ("verdict", &verdicts[..]),
    ] {
        let mut lines = SPEC.lines();
        let line = lines.find(|line| line.starts_with(&format!("| {name} |")));
        let cells = line
            .expect("a line of bits")
            .split('|')
            .map(str::trim)
            .skip(2);
        let found = (0..16).zip(cells).filter(|(_, cell)| !cell.is_empty());
        let found: Vec<(u16, &str)> = found.map(|(bit, cell)| (1 << bit, cell)).collect();
        assert_eq!(found, bits, "{name}");
    }
}
