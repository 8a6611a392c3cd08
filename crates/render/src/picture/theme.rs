//! The palette: one for pages, pictures and notebooks, in a light and a dark scheme.
//!
//! Contrast of bars against the ground is 3.2 at least (WCAG), and of text in bars 4.6. Any two colours
//! differ by 7.1 at least to a reader with normal sight, protanopia, deuteranopia or tritanopia (distance in
//! OKLab × 100 by Machado's matrices). The exceptions are [`Part::Beside`] and what is not known: these are
//! always inside a bar, and the latter is hatched.
//!
//! Rule: orange is waiting and nothing else, and no colour stands without a word or a hatch.

use analyze::rank_time::Part;

/// Which colours a picture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark text on white.
    Light,
    /// The reverse.
    Dark,
    /// Those of the page around it, by CSS variables: they follow the reader's scheme.
    Page,
}

/// The colours of a theme.
pub(super) struct Colours {
    pub ground: &'static str,
    pub text: &'static str,
    pub soft: &'static str,
    pub line: &'static str,
    /// Behind the lanes of a step.
    pub track: &'static str,
    pub computing: &'static str,
    pub beside: &'static str,
    /// The kernel that is named.
    pub named: &'static str,
    pub transfer: &'static str,
    pub waiting: &'static str,
    pub host: &'static str,
    pub unknown: &'static str,
    /// Lines on what is not known.
    pub hatch: &'static str,
    /// Who died or is missing: words and crosses only.
    pub bad: &'static str,
    /// Text on computing, waiting and host.
    pub ink: &'static str,
    pub on_beside: &'static str,
    pub on_transfer: &'static str,
    pub on_unknown: &'static str,
}

const LIGHT: Colours = Colours {
    ground: "#ffffff",
    text: "#14181d",
    soft: "#58606b",
    line: "#d3d7dd",
    track: "#f4f5f7",
    computing: "#2f6fb7",
    beside: "#a9cbef",
    named: "#0e2f57",
    transfer: "#12a08a",
    waiting: "#cc4309",
    host: "#59606a",
    unknown: "#dadde2",
    hatch: "#9aa1ab",
    bad: "#b3261e",
    ink: "#ffffff",
    on_beside: "#0e2f57",
    on_transfer: "#04211c",
    on_unknown: "#14181d",
};

const DARK: Colours = Colours {
    ground: "#14181d",
    text: "#eceff3",
    soft: "#a2aab5",
    line: "#39414b",
    track: "#242b30",
    computing: "#5c9de8",
    beside: "#2d5483",
    named: "#cfe4fc",
    transfer: "#4fd1b8",
    waiting: "#ff7a38",
    host: "#7d8591",
    unknown: "#333a43",
    hatch: "#69717c",
    bad: "#f2857c",
    ink: "#14181d",
    on_beside: "#e6f0fc",
    on_transfer: "#04211c",
    on_unknown: "#d6dbe1",
};

/// Names of the variables that `palette.css` and `style.css` have.
const PAGE: Colours = Colours {
    ground: "none",
    text: "var(--text)",
    soft: "var(--soft)",
    line: "var(--line)",
    track: "var(--track)",
    computing: "var(--computing)",
    beside: "var(--beside)",
    named: "var(--named)",
    transfer: "var(--transfer)",
    waiting: "var(--waiting)",
    host: "var(--empty)",
    unknown: "var(--unknown)",
    hatch: "var(--hatch)",
    bad: "var(--bad)",
    ink: "var(--on-computing)",
    on_beside: "var(--on-beside)",
    on_transfer: "var(--on-transfer)",
    on_unknown: "var(--on-unknown)",
};

impl Theme {
    pub(super) fn colours(self) -> &'static Colours {
        match self {
            Theme::Light => &LIGHT,
            Theme::Dark => &DARK,
            Theme::Page => &PAGE,
        }
    }
}

impl Colours {
    /// What fills a part, and what its text is written in.
    pub(super) fn of(&self, part: Part) -> (&'static str, &'static str) {
        match part {
            Part::Computing => (self.computing, self.ink),
            Part::Beside => (self.beside, self.on_beside),
            Part::Transfer => (self.transfer, self.on_transfer),
            Part::Waiting => (self.waiting, self.ink),
            Part::Host => (self.host, self.ink),
            Part::Outside | Part::Unknown => (self.unknown, self.on_unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by WCAG of `#rrggbb`.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("hex");
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_bars_stand_out() {
        for colours in [&LIGHT, &DARK] {
            assert!(contrast(colours.text, colours.ground) > 12.0);
            assert!(contrast(colours.soft, colours.ground) > 6.0);
            assert!(contrast(colours.bad, colours.track) > 5.0);
            for part in Part::ALL {
                let (fill, text) = colours.of(part);
                assert!(contrast(fill, text) >= 4.5, "{part:?} {fill} {text}");
                let is_inside = matches!(part, Part::Beside | Part::Outside | Part::Unknown);
                assert!(
                    is_inside || contrast(fill, colours.ground) >= 3.0,
                    "{part:?}"
                );
            }
        }
    }

    #[test]
    fn the_page_has_the_same_palette() {
        let css = include_str!("../../html/palette.css");
        let (light, dark) = css.split_once("prefers-color-scheme: dark").expect("two");
        let (dark, print) = dark.split_once("@media print").expect("three");
        for (colours, css) in [(&LIGHT, light), (&DARK, dark), (&LIGHT, print)] {
            let all = |of: &Colours| {
                [
                    of.track,
                    of.computing,
                    of.beside,
                    of.named,
                    of.transfer,
                    of.waiting,
                    of.host,
                    of.unknown,
                    of.hatch,
                    of.ink,
                    of.on_beside,
                    of.on_transfer,
                    of.on_unknown,
                ]
            };
            for (variable, colour) in all(&PAGE).into_iter().zip(all(colours)) {
                let name = variable.trim_start_matches("var(").trim_end_matches(')');
                assert!(
                    css.contains(&format!("{name}: {colour};")),
                    "{name}: {colour}"
                );
            }
        }
    }
}
