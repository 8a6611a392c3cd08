//! How wide text is, without a font: by the widths of DejaVu Sans, the widest of the fonts that a browser
//! takes for `system-ui`. So what fits here fits there.

use crate::layout::held;

/// Widths of the characters from blank to `~`, thousandths of the size.
#[rustfmt::skip]
const PLAIN: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// The same in bold.
#[rustfmt::skip]
const BOLD: [u16; 95] = [
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696,
    696, 696, 696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372,
    372, 775, 637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838,
    500, 500, 675, 716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595,
    478, 712, 652, 924, 645, 652, 582, 712, 365, 712, 838,
];
/// Of any other character.
const OTHER: u16 = 1000;
/// A character of a font of one width.
const MONO: f64 = 0.602;

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    Plain,
    Bold,
    Mono,
}

/// The width of a text of this size.
pub(super) fn width(text: &str, size: f64, face: Face) -> f64 {
    let table = match face {
        Face::Plain => &PLAIN,
        Face::Bold => &BOLD,
        Face::Mono => return text.chars().count() as f64 * MONO * size,
    };
    let of = |c: char| {
        let place = (c as usize).checked_sub(' ' as usize);
        let known = place.and_then(|place| table.get(place));
        let narrow = matches!(c, '\u{a0}' | '·').then_some(&table[0]);
        f64::from(*known.or(narrow).unwrap_or(&OTHER)) / 1e3
    };
    size * text.chars().map(of).sum::<f64>()
}

/// `text` in lines of this width at most, broken at blanks. A word that is wider has a line of its own.
pub(super) fn wrap(text: &str, size: f64, face: Face, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // A figure and its unit are one word.
    let held = held(text);
    for word in held.split(' ').filter(|word| !word.is_empty()) {
        let word = word.replace('\u{a0}', " ");
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, face) <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// `text`, cut to this width with `…` at its end.
pub(super) fn cut(text: &str, size: f64, face: Face, most: f64) -> String {
    if width(text, size, face) <= most {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while !kept.is_empty() {
        kept.pop();
        let short = format!("{}…", kept.iter().collect::<String>().trim_end());
        if width(&short, size, face) <= most {
            return short;
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_wider_than_they_may_be_and_no_word_is_lost() {
        let text = "Rank 1 (GPU 1 on vm) costs this job 3.97 s of 24.0 s: its GPU is busy.";
        for most in [60.0, 200.0, 400.0, 2000.0] {
            let lines = wrap(text, 16.0, Face::Bold, most);
            assert_eq!(lines.join(" "), text);
            let fits =
                |line: &String| width(line, 16.0, Face::Bold) <= most || !held(line).contains(' ');
            assert!(lines.iter().all(fits), "{lines:?}");
            // No line begins with a figure's unit.
            let is_unit = |line: &String| line.starts_with("s ") || line.starts_with("s:");
            assert!(!lines.iter().any(is_unit), "{lines:?}");
        }
        assert!(wrap("", 16.0, Face::Plain, 10.0).is_empty());
    }

    #[test]
    fn a_cut_text_ends_in_dots_and_fits() {
        let text = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT";
        let short = cut(text, 14.0, Face::Mono, 100.0);
        assert!(short.ends_with('…') && width(&short, 14.0, Face::Mono) <= 100.0);
        assert_eq!(cut(text, 14.0, Face::Mono, 1000.0), text);
        assert_eq!(cut(text, 14.0, Face::Mono, 1.0), "");
    }
}
