//! Which of several variants is the fastest, in words.

use analyze::diff::{Variant, Variants, WhichIsFastest};
use analyze::job::listed;
use analyze::spelling::time;

/// What several runs side by side say, in one sentence or two.
pub fn summary(of: &Variants) -> String {
    let (variants, figure) = (&of.variants, of.fastest.figure);
    let what = if figure == "step_us" { "step" } else { "run" };
    let mean = |variant: &Variant| variant.mean.get(figure).map_or("unknown".to_owned(), time);
    let of_number = |number: &usize| &variants[*number];
    match &of.fastest.which {
        WhichIsFastest::OneVariant => {
            "All of these are runs of one variant, as far as command, software and settings tell. If \
             something else differs, such as the code, name each run's variant: \
             `ncclscope diff old=DIR new=DIR old=DIR new=DIR`."
                .to_owned()
        }
        WhichIsFastest::Sure(number) => {
            let best = of_number(number);
            match &variants[..] {
                [a, b] => {
                    let other = if best.name == a.name { b } else { a };
                    format!(
                        "{} has the shorter {what}: {} against {} of {}, beyond the noise of {} runs.",
                        best.name,
                        mean(best),
                        mean(other),
                        other.name,
                        a.captures.len() + b.captures.len()
                    )
                }
                _ => format!(
                    "{} has the shortest {what}: {}, and its interval lies apart from every other's.",
                    best.name,
                    mean(best)
                ),
            }
        }
        WhichIsFastest::Unrepeated(shortest) => {
            let shortest = shortest.as_ref().map(of_number);
            let shortest = shortest.map_or(String::new(), |variant| {
                format!("{} has the shortest {what}, {}. ", variant.name, mean(variant))
            });
            format!(
                "{shortest}Whether that is chance is not known, because some variants ran once: repeat each."
            )
        }
        WhichIsFastest::Open => {
            format!("No variant has a shorter {what} than another beyond noise.")
        }
        WhichIsFastest::Several { equal, slower } => {
            let named = |of: &[usize]| {
                let each = of.iter().map(of_number);
                let each = each.map(|variant| format!("{} ({})", variant.name, mean(variant)));
                listed(&each.collect::<Vec<_>>())
            };
            format!(
                "{} have the shortest {what}, and differ by no more than noise. Beyond noise, {} {} longer \
                 than {}.",
                named(equal),
                named(slower),
                if slower.len() == 1 { "takes" } else { "take" },
                equal.first().map_or("", |first| &of_number(first).name),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::diff::{Fastest, Figures};

    #[test]
    fn equal_winners_are_named_before_the_slower_ones() {
        let variant = |(name, step_us): (&str, f64)| Variant {
            name: name.to_owned(),
            captures: vec!["1".to_owned(), "2".to_owned()],
            differs: Vec::new(),
            mean: Figures {
                step_us: Some(step_us),
                ..Figures::default()
            },
            low: Figures::default(),
            high: Figures::default(),
            findings: Vec::new(),
        };
        let all = [
            ("default", 18_700.0),
            ("a", 10_900.0),
            ("b", 50_000.0),
            ("c", 10_940.0),
        ];
        let said = |which| {
            summary(&Variants {
                schema: "",
                variants: all.map(variant).into(),
                best: Vec::new(),
                fastest: Fastest {
                    figure: "step_us",
                    which,
                },
            })
        };
        let (equal, slower) = (vec![1, 3], vec![0, 2]);
        assert_eq!(
            said(WhichIsFastest::Several { equal, slower }),
            "a (10.9 ms) and c (10.9 ms) have the shortest step, and differ by no more than noise. Beyond \
             noise, default (18.7 ms) and b (50.0 ms) take longer than a."
        );
        assert_eq!(
            said(WhichIsFastest::Open),
            "No variant has a shorter step than another beyond noise."
        );
    }
}
