use super::*;

/// Whether `path` is a field by `schema`, which may say so of one of several kinds.
fn has(root: &Value, schema: &Value, path: &str) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        return has(root, root.pointer(pointer).expect("defined"), path);
    }
    if let Some(kinds) = schema["anyOf"].as_array() {
        return kinds.iter().any(|kind| has(root, kind, path));
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match (name, &schema["properties"][name]) {
        ("", _) => true,
        ("length", _) => schema["type"] == "array",
        (place, _) if place.parse::<usize>().is_ok() => !schema["items"].is_null(),
        (_, Value::Null) => false,
        (_, found) => has(root, found, rest),
    }
}

#[test]
fn every_column_is_a_field_of_the_report() {
    let schema: Value = serde_json::from_str(crate::report_json::SCHEMA).expect("JSON");
    let of = |list: &str| {
        let found = schema.pointer(&format!("/properties/{list}/items"));
        found.unwrap_or_else(|| panic!("{list} is no list"))
    };
    for (list, columns) in [
        ("operations", [OPERATION, GPU_TIME, HOST_TIME].concat()),
        ("functions", FUNCTION.to_vec()),
        ("callers", CALLER.to_vec()),
        ("parts", PARTS.to_vec()),
        ("kinds", KIND.to_vec()),
        ("communicators", COMMUNICATORS.to_vec()),
        ("warmup", [ON_COMMUNICATOR, FIRST_CALLS].concat()),
        ("network", [ON_COMMUNICATOR, NETWORK].concat()),
        ("settings", SETTING.to_vec()),
        ("problems", PROBLEM.to_vec()),
        ("ranks/properties/rows", [PROCESS, RANK].concat()),
        ("steps/properties/rows", [PROCESS, STEPS].concat()),
        ("clocks/properties/hosts", CLOCKS.to_vec()),
        ("streams/properties/ranks", [STREAMS, IDLE_CAUSES].concat()),
        (
            "nodes/properties/energy/properties/phases",
            ENERGY_PHASE.to_vec(),
        ),
        ("nodes/properties/gpus", POWER.to_vec()),
        ("nodes/properties/rows", HOST.to_vec()),
        ("nodes/properties/threads", THREAD.to_vec()),
        ("nodes/properties/jitter", LONG_CALLS.to_vec()),
        ("mpi/properties/rows", MPI_RANK.to_vec()),
        ("mpi/properties/functions", MPI_FUNCTION.to_vec()),
        ("arrivals/properties/ranks", [PROCESS, ARRIVALS].concat()),
        ("arrivals/properties/links", [PROCESS, LINKS].concat()),
        (
            "completeness/properties/ranks",
            [PROCESS, COMPLETENESS].concat(),
        ),
    ] {
        for column in columns {
            assert!(
                has(&schema, of(list), column.path),
                "{list}: {}",
                column.path
            );
        }
    }
    assert!(!has(&schema, of("operations"), "time_us.p51"));
}

#[test]
fn what_is_missing_is_no_text() {
    let row = serde_json::json!({"host": "", "rank": null, "untimed": {}, "share": 0.5});
    let shown = |path, show: Show| field(&row, path).and_then(|value| show.text(value));
    assert_eq!(shown("host", Show::Text), None);
    assert_eq!(shown("rank", Show::Count), None);
    assert_eq!(shown("untimed", Show::Counts), None);
    assert_eq!(shown("not_there.p50", Show::Figure), None);
    assert_eq!(shown("share", Show::Percent).as_deref(), Some("50.0"));
}
