//! The callbacks of a capture as JSON lines: one object for each call of the profiler plugin, with every
//! field.
//!
//! A line has `host`, `pid` and `global_rank` (the launcher's). It has the thread by its number in the
//! capture, by the operating system's (`tid`), by name and by role. And it has `t_ns` (ns since 1970),
//! `ticks`, `callback` and `abi`. What the event itself says is in `fields` ([`crate::fields`]). `event` is
//! the number of the event in its process, and `parent_event` that of its parent.
//!
//! Rule: callbacks go out as they are read. Only what joins them is in memory.

use crate::fields::{self, hex, Texts};
use capture::callback::{Callback, EntryPoint};
use nccl_abi::{event, state};
use serde_json::{json, Map, Value};
use std::io::Write;
use tables::events::{self, Belongs, OfProcess};
use tables::{Capture, Process};

/// Writes one line for each callback and returns how many there were.
///
/// # Errors
/// Those of `out`.
pub fn write(capture: &Capture, out: &mut impl Write) -> std::io::Result<u64> {
    let mut lines = 0;
    each(capture, &mut |line| {
        lines += 1;
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")
    })?;
    Ok(lines)
}

/// Hands out one object for each callback.
pub(crate) fn each(
    capture: &Capture,
    take: &mut dyn FnMut(Map<String, Value>) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let index = capture.events();
    let pid_of = |process: usize| tables::pid::known(capture.processes.get(process)?.pid);
    for (number, process) in capture.processes.iter().enumerate() {
        let mut texts = Texts::new();
        let of = &index.processes[number];
        capture.follow(number, |callback, link| {
            match callback.what {
                EntryPoint::Text => {
                    let text = String::from_utf8_lossy(callback.payload).into_owned();
                    texts.insert(callback.subject, text);
                    return Ok(());
                }
                // Every line has it.
                EntryPoint::Thread => return Ok(()),
                _ => {}
            }
            take(object(process, of, &pid_of, &callback, link, &texts))
        })?;
    }
    Ok(())
}

/// One callback as an object.
fn object(
    process: &Process,
    of: &OfProcess,
    pid_of: &dyn Fn(usize) -> Option<u32>,
    callback: &Callback<'_>,
    link: Belongs,
    texts: &Texts,
) -> Map<String, Value> {
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| {
        line.insert(name.to_owned(), value);
    };
    let thread = of.threads.get(&callback.thread);
    put("host", process.host.as_str().into());
    put("pid", tables::pid::known(process.pid).into());
    put("global_rank", process.rank.into());
    put("thread", callback.thread.into());
    put("tid", thread.and_then(|t| t.id).into());
    put("thread_name", thread.and_then(|t| t.name.as_deref()).into());
    put("role", thread.map(|t| t.role.name()).into());
    put("t_ns", process.clock.realtime(callback.ticks).into());
    put("ticks", callback.ticks.0.into());
    put("abi", callback.abi.into());
    let name = match callback.what {
        EntryPoint::Init => "init",
        EntryPoint::Start => "startEvent",
        EntryPoint::Stop => "stopEvent",
        EntryPoint::State => "recordEventState",
        EntryPoint::Finalize => "finalize",
        EntryPoint::Text => "text",
        EntryPoint::Thread => "thread",
    };
    put("callback", name.into());
    match callback.what {
        EntryPoint::Init => put("context", hex(callback.result)),
        EntryPoint::Start => {
            let kind = events::kind(callback);
            put("event", link.event.into());
            put("type", event::name(kind).into());
            put("type_bits", json!(format!("{kind:#x}")));
            put("context", hex(callback.subject));
            put("handle", hex(callback.result));
            put("parent", hex(events::parent(callback)));
            let elsewhere = link.event.and_then(|number| of.foreign.get(&number));
            let parent = elsewhere.map_or(link.parent, |of| of.event);
            put("parent_event", parent.into());
            // Of another process only: its numbers count apart.
            if let Some(elsewhere) = elsewhere {
                put("parent_pid", elsewhere.process.and_then(pid_of).into());
            }
        }
        EntryPoint::Stop => {
            put("event", link.event.into());
            put("handle", hex(callback.subject));
        }
        EntryPoint::State => {
            let number = u32::try_from(callback.result).ok();
            put("event", link.event.into());
            put("handle", hex(callback.subject));
            put("state", number.and_then(state::name).into());
            put("state_number", callback.result.into());
            put("args", (!callback.payload.is_empty()).into());
        }
        EntryPoint::Finalize => put("context", hex(callback.subject)),
        EntryPoint::Text | EntryPoint::Thread => {}
    }
    let fields = fields::of(callback, texts);
    if !fields.is_empty() {
        put("fields", fields.into());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::rows::Ticks;
    use nccl_abi::{event, state};
    use std::collections::BTreeMap;
    use tables::events::{Follower, Thread, ThreadRole};

    fn object_of(callback: &Callback, texts: &[(u64, &str)]) -> Map<String, Value> {
        let texts = texts
            .iter()
            .map(|(at, text)| (*at, (*text).to_owned()))
            .collect();
        let process = Process {
            host: "n".into(),
            pid: 5,
            ..Process::default()
        };
        let thread = Thread {
            id: Some(77),
            name: Some("NCCL Progress 0".into()),
            role: ThreadRole::Proxy,
        };
        let of = OfProcess {
            threads: BTreeMap::from([(1, thread)]),
            ..OfProcess::default()
        };
        let link = Follower::new(&process).next(callback);
        object(&process, &of, &|_| None, callback, link, &texts)
    }

    fn callback(what: EntryPoint, abi: u8, payload: &[u8]) -> Callback<'_> {
        Callback {
            what,
            abi,
            thread: 1,
            ticks: Ticks(9),
            subject: 0xa0,
            result: 0xb0,
            payload,
        }
    }

    #[test]
    fn a_v1_collective_has_names_for_its_numbers() {
        let mut payload = vec![0xee; 120];
        payload[0] = event::COLL as u8;
        payload[48] = 4;
        payload[72..80].copy_from_slice(&1000u64.to_le_bytes());
        payload[84] = 7;
        payload[106] = 1;
        payload[107] = 0;
        let o = object_of(&callback(EntryPoint::Start, 1, &payload), &[]);
        let text = |name: &str| {
            let of = o.get(name).unwrap_or_else(|| &o["fields"][name]);
            of.as_str().expect("a string")
        };
        assert_eq!(
            (text("type"), text("func"), text("datatype")),
            ("Coll", "AllReduce", "ncclFloat32")
        );
        assert_eq!(
            (text("algo"), text("proto"), o["fields"]["count"].as_u64()),
            ("RING", "LL", Some(1000))
        );
        assert_eq!((text("context"), text("handle")), ("0xa0", "0xb0"));
    }

    #[test]
    fn strings_are_resolved_and_unknown_pointers_kept() {
        let mut payload = vec![0; 136];
        payload[..8].copy_from_slice(&event::COLL_API.to_le_bytes());
        payload[24..32].copy_from_slice(&0x10u64.to_le_bytes());
        payload[40..48].copy_from_slice(&0x20u64.to_le_bytes());
        payload[64] = 1;
        payload[72..80].copy_from_slice(&77u64.to_le_bytes());
        let o = object_of(
            &callback(EntryPoint::Start, 7, &payload),
            &[(0x10, "Reduce")],
        );
        assert_eq!(
            (
                o["fields"]["func"].as_str(),
                o["fields"]["datatype"].as_str()
            ),
            (Some("Reduce"), Some("0x20"))
        );
        assert_eq!(
            (
                o["fields"]["graph_captured"].as_bool(),
                o["fields"]["user_tag"].as_u64()
            ),
            (Some(true), Some(77))
        );
        assert!(o["parent"].is_null());
    }

    #[test]
    fn short_records_give_nulls() {
        for what in [EntryPoint::Init, EntryPoint::Start, EntryPoint::State] {
            for abi in 0..9 {
                for bit in 0..17 {
                    let payload = (1u64 << bit).to_le_bytes();
                    let _ = object_of(&callback(what, abi, &payload), &[]);
                    let _ = object_of(&callback(what, abi, &payload[..3]), &[]);
                }
            }
        }
    }

    #[test]
    fn the_fields_of_an_event_are_apart_from_those_of_its_line() {
        let mut payload = vec![0; 112];
        payload[0] = event::PROXY_OP as u8;
        payload[24..28].copy_from_slice(&1234i32.to_le_bytes());
        payload[16..20].copy_from_slice(&3i32.to_le_bytes());
        let o = object_of(&callback(EntryPoint::Start, 5, &payload), &[]);
        assert_eq!(
            (o["pid"].as_u64(), o["fields"]["origin_pid"].as_u64()),
            (Some(5), Some(1234))
        );
        assert_eq!(
            (o["tid"].as_u64(), o["role"].as_str()),
            (Some(77), Some("proxy"))
        );
        assert_eq!(
            (o["event"].as_u64(), o["fields"]["rank"].as_u64()),
            (Some(1), Some(3))
        );
        assert_eq!(o["thread_name"].as_str(), Some("NCCL Progress 0"));
        assert!(o["fields"].get("pid").is_none());
    }

    #[test]
    fn a_state_names_its_arguments() {
        let payload = 123u64.to_le_bytes();
        let mut stop = callback(EntryPoint::State, 5, &payload);
        stop.result = state::KERNEL_CH_STOP.into();
        let o = object_of(&stop, &[]);
        assert_eq!(
            (o["fields"]["p_timer"].as_u64(), o["state_number"].as_u64()),
            (Some(123), Some(22))
        );
        assert_eq!(o["handle"].as_str(), Some("0xa0"));
    }
}
