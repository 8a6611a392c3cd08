//! Moments as people read them: in the time zone of the recording.
//!
//! [`Zone::of`] takes the zone that `ncclscope run` wrote into `capture.json`, else that of the first process
//! that recorded one. A capture without a zone is shown in UTC, and says so with each moment.
//!
//! Rule: a capture has one offset from UTC, that of its start. So the same report comes out everywhere, and
//! moments of one job can be compared even if clocks were changed for the summer meanwhile.

use jiff::tz::Offset;
use jiff::Timestamp;
use tables::Capture;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    offset: Offset,
    /// Its name, such as `Europe/Berlin`, if that was recorded.
    pub name: Option<String>,
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone {
        offset: Offset::UTC,
        name: None,
    };

    /// The zone of a capture.
    pub fn of(capture: &Capture) -> Zone {
        let of_run = |key: &str| capture.job.get(key)?.as_str();
        let run = of_run("zone").zip(of_run("started").and_then(offset));
        let of_process = |process: &tables::Process| {
            let offset = offset(process.fact("utc_offset")?)?;
            Some((process.fact("zone").unwrap_or_default().to_owned(), offset))
        };
        let process = || capture.processes.iter().find_map(of_process);
        let found = run.map(|(name, offset)| (name.to_owned(), offset));
        found
            .or_else(process)
            .map_or(Zone::UTC, |(name, offset)| Zone {
                offset,
                name: Some(name).filter(|name| !name.is_empty()),
            })
    }

    /// A moment in ns since 1970, by RFC 3339; `None` if it is beyond all years.
    pub fn rfc3339(&self, ns: i64) -> Option<String> {
        let moment = Timestamp::from_nanosecond(ns.into()).ok()?;
        Some(if self.offset == Offset::UTC {
            moment.to_string()
        } else {
            moment.display_with_offset(self.offset).to_string()
        })
    }

    /// A moment in ns since 1970, as people write it, with so many decimals of a second.
    pub fn spelled(&self, ns: i64, decimals: usize) -> String {
        let moment = self.rfc3339(ns);
        moment.map_or_else(|| ns.to_string(), |moment| spelled(&moment, decimals))
    }

    /// A moment by RFC 3339, in this zone. What is none stays as it is.
    pub fn moved(&self, rfc3339: String) -> String {
        let ns = rfc3339.parse::<Timestamp>().map(|t| t.as_nanosecond());
        let moved = ns.ok().and_then(|ns| self.rfc3339(ns.try_into().ok()?));
        moved.unwrap_or(rfc3339)
    }
}

/// The offset at the end of a moment, or by itself: `+05:30`, `Z`.
fn offset(text: &str) -> Option<Offset> {
    if text.ends_with('Z') {
        return Some(Offset::UTC);
    }
    let (hours, minutes) = text.get(text.len().checked_sub(6)?..)?.split_once(':')?;
    let (sign, hours) = hours.split_at_checked(1)?;
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    match sign {
        "+" => Offset::from_seconds(seconds).ok(),
        "-" => Offset::from_seconds(-seconds).ok(),
        _ => None,
    }
}

/// A moment of RFC 3339 as people write it: `2026-11-22 01:05:12 UTC`, or with `+01:00`. It has so many
/// decimals of a second.
pub fn spelled(rfc3339: &str, decimals: usize) -> String {
    let (day, rest) = rfc3339.split_once('T').unwrap_or((rfc3339, ""));
    let (clock, zone) = match rest.find(['+', '-', 'Z']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let zone = match zone {
        "" => String::new(),
        "Z" | "+00:00" => " UTC".to_owned(),
        offset => format!(" {offset}"),
    };
    let (seconds, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    match decimals {
        0 => format!("{day} {seconds}{zone}").trim_end().to_owned(),
        _ => format!("{day} {seconds}.{fraction:0<decimals$.decimals$}{zone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn zone(job: serde_json::Value, facts: &[(&str, &str)]) -> Zone {
        let mut process = tables::Process::default();
        let facts = facts
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        process.facts = facts.collect();
        Zone::of(&Capture {
            job,
            processes: vec![tables::Process::default(), process],
            ..Capture::default()
        })
    }

    #[test]
    fn the_launcher_s_zone_comes_first_and_utc_last() {
        let facts = [("utc_offset", "-03:30"), ("zone", "America/St_Johns")];
        let job = json!({"started": "2026-01-01T01:00:00+01:00", "zone": "Europe/Berlin"});
        for (zone, at, name) in [
            (zone(job, &facts), "01:00:00+01:00", Some("Europe/Berlin")),
            // Recorded before zones were.
            (
                zone(json!({"started": "2026-01-01T00:00:00Z"}), &[]),
                "00:00:00Z",
                None,
            ),
            (zone(json!(null), &[]), "00:00:00Z", None),
            (
                zone(json!(null), &[("utc_offset", "nonsense")]),
                "00:00:00Z",
                None,
            ),
            (zone(json!(null), &facts[..1]), "20:30:00-03:30", None),
            (
                zone(json!(null), &facts),
                "20:30:00-03:30",
                Some("America/St_Johns"),
            ),
        ] {
            let found = zone.rfc3339(1_767_225_600_000_000_000).expect("a moment");
            assert_eq!(found.split_once('T').map(|(_, at)| at), Some(at));
            assert_eq!(zone.name.as_deref(), name);
            assert_eq!(zone.moved("2026-01-01T00:00:00Z".to_owned()), found);
        }
    }

    #[test]
    fn moments_are_spelled_one_way() {
        for (rfc3339, decimals, expected) in [
            ("2026-11-22T01:05:12Z", 0, "2026-11-22 01:05:12 UTC"),
            (
                "2026-11-22T01:05:12.98765+00:00",
                0,
                "2026-11-22 01:05:12 UTC",
            ),
            (
                "2026-11-22T01:05:12.98765-03:30",
                3,
                "2026-11-22 01:05:12.987 -03:30",
            ),
            (
                "2026-11-22T01:05:12+01:00",
                3,
                "2026-11-22 01:05:12.000 +01:00",
            ),
            ("yesterday", 0, "yesterday"),
        ] {
            assert_eq!(spelled(rfc3339, decimals), expected);
        }
    }
}
