//! Which settings of algorithm and protocol took effect, in words.

use analyze::settings::SettingRow;
use schemars::JsonSchema;
use serde::Serialize;

/// A setting and what one function did with it, in words as well, as JSON has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Setting")]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    setting: &'a SettingRow,
    /// Why others were used, where that is certain.
    why: Option<String>,
    /// All this in a sentence.
    summary: String,
}

impl Row<'_> {
    pub(crate) fn of(setting: &SettingRow) -> Row<'_> {
        Row {
            setting,
            why: why(setting),
            summary: summary(setting),
        }
    }
}

/// Why others were used than what was asked for; `None` if that is not certain.
pub(crate) fn why(of: &SettingRow) -> Option<String> {
    let function = of.function.as_ref().filter(|_| !of.only.is_empty())?;
    Some(format!("{function} has {} only", of.only.join(", ")))
}

/// What was asked for and what was done, in a sentence.
pub(crate) fn summary(of: &SettingRow) -> String {
    let variable = of.variable;
    let what = match &of.value {
        Some(value) => format!("{variable}={value}"),
        None => format!("no {variable}"),
    };
    if let Some(all) = of.of_processes {
        let n = of.nprocesses;
        return format!("{what} on {n} of {all} processes: NCCL wants the same on all.");
    }
    let Some(function) = &of.function else {
        return format!("{what} asked; no call that it says anything about.");
    };
    let mut text = format!(
        "{what} asked; {} of {} {function} calls used it",
        of.obeyed, of.calls
    );
    for (name, n) in &of.others {
        text += &format!(", {n} used {name}");
    }
    if of.not_told > 0 {
        text += &format!(", of {} NCCL did not tell", of.not_told);
    }
    match why(of) {
        Some(why) => text += &format!(" ({why})"),
        None if !of.others.is_empty() => text += "; why, NCCL does not tell",
        None => {}
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_follows_what_was_asked_for() {
        let mut row = SettingRow {
            variable: "NCCL_ALGO",
            value: Some("Tree".to_owned()),
            nprocesses: 1,
            of_processes: Some(2),
            ..SettingRow::default()
        };
        assert_eq!(
            summary(&row),
            "NCCL_ALGO=Tree on 1 of 2 processes: NCCL wants the same on all."
        );
        row.of_processes = None;
        assert_eq!(
            summary(&row),
            "NCCL_ALGO=Tree asked; no call that it says anything about."
        );
        row.function = Some("Reduce".to_owned());
        row.calls = 3;
        row.others.insert("RING".to_owned(), 2);
        row.not_told = 1;
        let used = "NCCL_ALGO=Tree asked; 0 of 3 Reduce calls used it, 2 used RING, of 1 NCCL did not tell";
        assert_eq!(summary(&row), format!("{used}; why, NCCL does not tell."));
        row.only = vec!["RING"];
        assert_eq!(summary(&row), format!("{used} (Reduce has RING only)."));
    }
}
