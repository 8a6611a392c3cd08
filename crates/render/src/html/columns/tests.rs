use super::*;
use std::collections::BTreeSet;

#[test]
fn every_column_is_a_field_with_a_description_or_a_word() {
    for table in ALL {
        for column in *table {
            let meaning = column.meaning();
            let name = format!("{}.{} ({})", column.rows, column.path, column.name);
            assert!(meaning.is_some_and(|of| !of.text.is_empty()), "{name}");
            let of_field = meanings::of("report", column.rows, column.path);
            let is_made = column.rows.is_empty() || column.path.is_empty();
            assert_eq!(of_field.is_none(), is_made, "{name}");
        }
    }
    // These are in other tables, too.
    let others = [
        "steps.rows",
        "arrivals.ranks",
        "arrivals.links",
        "completeness.ranks",
    ];
    let others = others.map(|rows| (rows, PROCESS)).into_iter();
    for (rows, columns) in others.chain([("network", ON_COMMUNICATOR)]) {
        for column in columns {
            assert!(
                meanings::of("report", rows, column.path).is_some(),
                "{rows}"
            );
        }
    }
}

#[test]
fn a_head_has_one_meaning_in_a_table() {
    for table in ALL {
        let heads: BTreeSet<_> = table.iter().map(|of| (of.name, of.unit)).collect();
        assert_eq!(heads.len(), table.len(), "{heads:?}");
    }
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
