//! The settings that an experiment tries.

/// Variables and their values.
pub type Variables = Vec<(String, String)>;

/// A variable and the values to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    name: String,
    values: Vec<String>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// How it is called: its variables, or `default`.
    pub name: String,
    /// The folder of its captures: its number and its values, so that a shell lists the default first.
    pub folder: String,
    /// What it sets.
    pub variables: Variables,
}

/// `NAME=VALUE,...`; `\,` is a comma in a value.
pub fn tried(text: &str) -> Result<Tried, String> {
    let (name, list) = crate::run::variable(text)?;
    let mut values = vec![String::new()];
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(',')) => {
                letters.next();
                values.last_mut().expect("never empty").push(',');
            }
            (',', _) => values.push(String::new()),
            _ => values.last_mut().expect("never empty").push(letter),
        }
    }
    if values.iter().any(String::is_empty) {
        return Err("expected values between commas, like NCCL_ALGO=Ring,Tree".to_owned());
    }
    Ok(Tried { name, values })
}

/// `NAME=VALUE NAME=VALUE`.
pub fn setting(text: &str) -> Result<Variables, String> {
    let variables: Variables = text
        .split_whitespace()
        .map(crate::run::variable)
        .collect::<Result<_, _>>()?;
    if variables.is_empty() {
        Err("expected NAME=VALUE, like NCCL_ALGO=Ring".to_owned())
    } else {
        Ok(variables)
    }
}

/// The default, all combinations of what is tried, and the settings; each once.
pub fn all(tries: &[Tried], settings: &[Variables]) -> Vec<Arm> {
    let mut sets: Vec<Variables> = vec![Vec::new()];
    for tried in tries {
        let with = |set: &Variables| {
            let one = |value: &String| [&set[..], &[(tried.name.clone(), value.clone())]].concat();
            tried.values.iter().map(one).collect::<Vec<Variables>>()
        };
        sets = sets.iter().flat_map(with).collect();
    }
    // The default comes first, and without a --try it is the one combination.
    sets.retain(|set| !set.is_empty());
    sets.insert(0, Vec::new());
    sets.extend(settings.iter().cloned());
    let mut arms: Vec<Arm> = Vec::new();
    for variables in sets {
        if !arms.iter().any(|arm| arm.variables == variables) {
            arms.push(Arm::new(arms.len(), variables));
        }
    }
    arms
}

impl Arm {
    fn new(number: usize, variables: Variables) -> Arm {
        let words = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let values: Vec<&str> = variables.iter().map(|(_, value)| value.as_str()).collect();
        let sound = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        let (name, values) = if variables.is_empty() {
            ("default".to_owned(), "default".to_owned())
        } else {
            (words.collect::<Vec<String>>().join(" "), values.join("-"))
        };
        let values: String = values.chars().map(sound).take(60).collect();
        Arm {
            name,
            folder: format!("{number:02}-{values}"),
            variables,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tries: &[&str], settings: &[&str]) -> Vec<String> {
        let tries: Vec<Tried> = tries
            .iter()
            .map(|text| tried(text).expect("read"))
            .collect();
        let settings: Vec<Variables> = settings
            .iter()
            .map(|text| setting(text).expect("read"))
            .collect();
        all(&tries, &settings)
            .into_iter()
            .map(|arm| arm.name)
            .collect()
    }

    #[test]
    fn tries_are_combined_and_settings_are_not() {
        assert_eq!(
            names(&["A=1,2", "B=x,y"], &["C=3 D=4", "A=1 B=x"]),
            ["default", "A=1 B=x", "A=1 B=y", "A=2 B=x", "A=2 B=y", "C=3 D=4"]
        );
        assert_eq!(names(&[], &["C=3"]), ["default", "C=3"]);
    }

    #[test]
    fn a_value_may_have_a_comma() {
        assert_eq!(
            names(&[r"NCCL_ALGO=Ring\,Tree,^NVLS"], &[]),
            ["default", "NCCL_ALGO=Ring,Tree", "NCCL_ALGO=^NVLS"]
        );
        let arms = all(&[tried(r"NCCL_ALGO=^NVLS\,Tree").expect("read")], &[]);
        assert_eq!(arms[1].folder, "01--NVLS-Tree");
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for wrong in ["", "NCCL_ALGO", "=Ring", "9A=1", "A=", "A=1,,2", "A B=1"] {
            assert!(tried(wrong).is_err(), "{wrong}");
        }
        assert!(setting("").is_err() && setting("A").is_err());
    }
}
