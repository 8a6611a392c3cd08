//! docs/reference/tables.md names the columns of the code.

use tables::calls::COLUMNS;

#[test]
fn the_page_of_calls_matches_the_code() {
    let page = include_str!("../../../../docs/reference/tables.md");
    let section = page
        .split("\n## ")
        .find(|s| s.starts_with("calls\n"))
        .expect("a section on calls");
    let rows: Vec<[&str; 3]> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{line}");
            [cells[0].trim_matches('`'), cells[1], cells[2]]
        })
        .collect();
    let code: Vec<[&str; 3]> = COLUMNS.iter().map(|c| [c.name, c.kind, c.unit]).collect();
    assert_eq!(rows, code);
}
