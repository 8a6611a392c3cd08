//! The section with the viewer's lanes, which the scripts of `html/viewer` draw from what is embedded.

use super::Page;
use crate::view::{SCRIPT, STYLE};

/// Where data and script of the viewer go, in a page that is made.
const PLACE: &str = "<!--lanes-->\n";
/// Bytes around the viewer's data that are not in the page before it is put in.
pub(super) const AROUND: usize = SCRIPT.len() + 400;
/// What is said instead, if the page is full.
const FULL: &str = "<p>The tables fill this page, so that no lanes fit in. \
    <code>ncclscope view</code> shows them.</p>\n";

impl Page<'_> {
    pub(super) fn lanes(&mut self) {
        if !self.has_lanes {
            return;
        }
        self.section(
            "lanes",
            "Lanes of ranks",
            "Each rank from left to right over the run; orange is waiting for the last rank. Zoom in for \
             single calls. `ncclscope view` shows the same with every call of a long run.",
        );
        self.html += PLACE;
        self.end();
    }
}

/// The viewer's style element, if there is a viewer.
pub(super) fn style(has_lanes: bool) -> String {
    if has_lanes {
        format!("<style>{STYLE}</style>\n")
    } else {
        String::new()
    }
}

/// Puts data and script of the viewer into their place.
pub(super) fn insert(page: &mut String, has_lanes: bool, data: Option<&str>) {
    let Some(at) = page.find(PLACE).filter(|_| has_lanes) else {
        return;
    };
    let viewer = match data {
        Some(data) => format!(
            "<div id=\"viewer\"></div>\n<noscript><p>Lanes need JavaScript.</p></noscript>\n\
             <script type=\"application/json\" id=\"viewer-data\">{data}</script>\n\
             <script type=\"module\">{SCRIPT}</script>\n"
        ),
        None => FULL.to_owned(),
    };
    page.replace_range(at..at + PLACE.len(), &viewer);
}
