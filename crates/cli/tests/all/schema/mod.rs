//! What the tests of `--json` share.

use serde_json::Value;

/// Asserts that an answer is as its schema says.
pub fn keeps_to(schema: &str, answer: &Value) {
    let schema = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<String> = validator
        .iter_errors(answer)
        .map(|e| e.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
