//! What NCCL prints while it starts, as `paths` and `startup` print it.

use setup::log::Reader;

const LOG: &str = "\
n0:1:1 [0] NCCL INFO Using network IB
n0:1:1 [0] NCCL INFO f comm 0x70 rank 0 nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0xa - Init START
n0:2:2 [1] NCCL INFO f comm 0x71 rank 1 nranks 3 cudaDev 1 nvmlDev 1 busId 2000 commId 0xa - Init START
n0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0
n0:1:1 [0] NCCL INFO NVLS comm 0x70 headRank 0 nHeads 3 nvlsRanks 3 buffSize 1048576
n0:2:2 [1] NCCL INFO Conn0:9:9 [7] NCCL INFO nected all trees
n0:9:9 [7] NCCL INFO Channel 00 : 7[7] -> 8[8] via SHM/direct/direct
n0:1:1 [0] NCCL INFO f comm 0x70 rank 0 nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0xa - Init COMPLETE
";

/// Holds JSON to a schema.
fn check(schema: &str, json: &[u8]) {
    let schema = serde_json::from_str(schema).expect("JSON");
    let json = serde_json::from_slice(json).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors = validator.iter_errors(&json);
    let errors: Vec<String> = errors
        .map(|e| format!("{}: {e}", e.instance_path))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn json_of_paths_and_start_up_keeps_to_its_schema() {
    for log in [LOG, &LOG[..38], ""] {
        let mut reader = Reader::default();
        log.lines().for_each(|line| reader.add(line));
        let said = reader.finish();
        let mut json = Vec::new();
        render::paths::json(&analyze::paths::of_said(&said, None), &mut json).expect("written");
        check(render::paths::SCHEMA, &json);
        json.clear();
        render::startup::json(&analyze::startup::of_said(&said), &mut json).expect("written");
        check(render::startup::SCHEMA, &json);
    }
}
