//! What the screen shows: which moment, which rows, in which order.
//!
//! Rule: rows keep their order for [`HOLD`] looks' time, so that nobody reads the wrong row. The culprit is
//! always the first.

use super::screen::Glyphs;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use render::top::{Now, RankNow};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Looks that are kept for scrolling back. One of a thousand ranks takes some 300 kB.
const MOST_LOOKS: usize = 600;
/// Rows of all looks that are kept.
const MOST_ROWS: usize = 200_000;
/// For so long rows keep their order.
const HOLD: Duration = Duration::from_secs(10);
/// How far an arrow goes back, ns.
const BACK: i64 = 10_000_000_000;

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Ranks.
    Ranks,
    /// Nodes.
    Nodes,
    /// Links.
    Links,
    /// What is in flight, by rank.
    Hang,
    /// One rank.
    Details,
    /// The keys.
    Help,
    /// The screen is to be copied to a file.
    Copy,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Price.
    Price,
    /// Share of waiting.
    Wait,
    /// Rank.
    Rank,
    /// Power.
    Power,
}

const SORTS: [Sort; 4] = [Sort::Price, Sort::Wait, Sort::Rank, Sort::Power];

impl Sort {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Price => "price",
            Sort::Wait => "wait",
            Sort::Rank => "rank",
            Sort::Power => "power",
        }
    }
}

/// See the module.
pub struct State {
    /// The capture.
    pub folder: String,
    /// All looks that are kept, the oldest first.
    pub looks: VecDeque<Now>,
    /// The look that is shown while paused.
    pub paused: Option<usize>,
    /// What is shown.
    pub view: View,
    /// The order of rows.
    pub sort: Sort,
    /// Only rows with this text.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// The row that is marked.
    pub marked: usize,
    /// Whether there is colour.
    pub colour: bool,
    /// How bars are drawn.
    pub glyphs: Glyphs,
    /// Whether the keys are shown.
    pub keys: bool,
    /// Something to say once.
    pub message: Option<String>,
    /// Host and process of rows in the order in which they are shown.
    order: Vec<(String, u32, Option<u32>)>,
    ordered: Option<Instant>,
    ordered_for: (Sort, Vec<u32>),
}

impl State {
    /// Nothing was seen yet.
    pub fn new(colour: bool, glyphs: Glyphs) -> State {
        State {
            folder: String::new(),
            looks: VecDeque::new(),
            paused: None,
            view: View::Ranks,
            sort: Sort::Price,
            filter: String::new(),
            typing: false,
            marked: 0,
            colour,
            glyphs,
            keys: true,
            message: None,
            order: Vec::new(),
            ordered: None,
            ordered_for: (Sort::Price, Vec::new()),
        }
    }

    /// The look that is shown.
    pub fn shown(&self) -> Option<&Now> {
        match self.paused {
            Some(index) => self.looks.get(index),
            None => self.looks.back(),
        }
    }

    /// Takes a look in.
    pub fn add(&mut self, now: Now) {
        self.looks.push_back(now);
        let rows =
            |looks: &VecDeque<Now>| looks.iter().map(|now| now.ranks.len() + 8).sum::<usize>();
        while self.looks.len() > MOST_LOOKS
            || (self.looks.len() > 2 && rows(&self.looks) > MOST_ROWS)
        {
            self.looks.pop_front();
            self.paused = self.paused.map(|index| index.saturating_sub(1));
        }
        if self.paused.is_none() {
            self.put_in_order(Instant::now());
        }
    }

    /// Puts the rows in order, unless they were lately.
    pub fn put_in_order(&mut self, at: Instant) {
        let Some(now) = self.shown() else { return };
        let culprits = now.culprits.iter().map(|of| of.pid).collect();
        let wanted = (self.sort, culprits);
        let held = self
            .ordered
            .is_some_and(|before| at.duration_since(before) < HOLD);
        let known = now.ranks.len() == self.order.len();
        if held && known && wanted == self.ordered_for {
            return;
        }
        let mut rows: Vec<&RankNow> = now.ranks.iter().collect();
        let is_culprit = |row: &RankNow| {
            now.culprits
                .iter()
                .any(|of| of.host == row.process.host && of.pid == row.process.pid)
        };
        let by = |row: &RankNow| match self.sort {
            Sort::Price => row.cost_step_us.or(row.wait_share).unwrap_or(0.0),
            Sort::Wait => row.wait_share.unwrap_or(0.0),
            Sort::Rank => 0.0,
            Sort::Power => row.power_w.unwrap_or(0.0),
        };
        rows.sort_by(|a, b| {
            let first = is_culprit(b).cmp(&is_culprit(a));
            // Differences that nobody sees make no order.
            let rounded = |row: &RankNow| (by(row) * 20.0).round();
            let next = rounded(b).total_cmp(&rounded(a));
            first.then(next).then(a.process.cmp(&b.process))
        });
        self.order = rows
            .into_iter()
            .map(|row| (row.process.host.clone(), row.process.pid, row.device))
            .collect();
        self.ordered = Some(at);
        self.ordered_for = wanted;
    }

    /// The rows of a look in their order, as far as the filter lets them through.
    pub fn rows<'a>(&self, now: &'a Now) -> Vec<&'a RankNow> {
        let places: std::collections::HashMap<_, _> = self
            .order
            .iter()
            .enumerate()
            .map(|(place, (host, pid, device))| ((host.as_str(), *pid, *device), place))
            .collect();
        let mut rows: Vec<&RankNow> = now.ranks.iter().filter(|row| self.is_wanted(row)).collect();
        rows.sort_by_key(|row| {
            let key = (row.process.host.as_str(), row.process.pid, row.device);
            places.get(&key).copied().unwrap_or(usize::MAX)
        });
        rows
    }

    fn is_wanted(&self, row: &RankNow) -> bool {
        let text = self.filter.trim();
        if text.is_empty() {
            return true;
        }
        match text.parse::<u32>() {
            Ok(number) => row.process.rank == Some(number),
            Err(_) => row.process.host.contains(text) || row.state.contains(text),
        }
    }

    /// Waiting shares of a rank over the looks up to the one that is shown, the newest last: a mean for each
    /// of `cells` equal parts.
    pub fn history(&self, of: &RankNow, cells: usize) -> Vec<Option<f64>> {
        let end = self.paused.unwrap_or(self.looks.len().saturating_sub(1));
        let looks = self.looks.iter().take(end + 1);
        let values: Vec<Option<f64>> = looks
            .map(|now| {
                let key = (&of.process.host, of.process.pid, of.device);
                let mut ranks = now.ranks.iter();
                let own = ranks.find(|row| (&row.process.host, row.process.pid, row.device) == key);
                own.and_then(|own| own.wait_share)
            })
            .collect();
        spread(&values, cells)
    }

    /// Steps' lengths likewise, µs.
    pub fn steps(&self, cells: usize) -> Vec<Option<f64>> {
        let end = self.paused.unwrap_or(self.looks.len().saturating_sub(1));
        let looks = self.looks.iter().take(end + 1);
        let values: Vec<Option<f64>> = looks.map(|now| now.step_us).collect();
        spread(&values, cells)
    }

    /// Takes a key; false to end.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return false;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(letter) if self.filter.len() < 40 => self.filter.push(letter),
                _ => {}
            }
            return true;
        }
        let other = |view: View, state: &mut State| {
            state.view = if state.view == view {
                View::Ranks
            } else {
                view
            };
        };
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Esc if self.view == View::Ranks && self.filter.is_empty() => return false,
            KeyCode::Esc => {
                self.view = View::Ranks;
                self.filter.clear();
            }
            KeyCode::Char('s') => self.sort_by(1),
            KeyCode::Char('S') => self.sort_by(SORTS.len() - 1),
            KeyCode::Char('/') => {
                self.typing = true;
                self.filter.clear();
            }
            KeyCode::Char(' ') => {
                self.paused = match self.paused {
                    None if !self.looks.is_empty() => Some(self.looks.len() - 1),
                    _ => None,
                };
            }
            KeyCode::Left => self.scroll(-BACK),
            KeyCode::Right => self.scroll(BACK),
            KeyCode::Home if !self.looks.is_empty() => self.paused = Some(0),
            KeyCode::End => self.paused = None,
            KeyCode::Up => self.marked = self.marked.saturating_sub(1),
            KeyCode::Down => self.marked = self.marked.saturating_add(1),
            KeyCode::Enter => other(View::Details, self),
            KeyCode::Char('n') => other(View::Nodes, self),
            KeyCode::Char('l') => other(View::Links, self),
            KeyCode::Char('h') => other(View::Hang, self),
            KeyCode::Char('?') => other(View::Help, self),
            KeyCode::Char('c') => self.view = View::Copy,
            _ => {}
        }
        let rows = self.shown().map_or(0, |now| now.ranks.len());
        self.marked = self.marked.min(rows.saturating_sub(1));
        true
    }

    fn sort_by(&mut self, next: usize) {
        let at = SORTS
            .iter()
            .position(|sort| *sort == self.sort)
            .unwrap_or(0);
        self.sort = SORTS[(at + next) % SORTS.len()];
        self.put_in_order(Instant::now());
    }

    /// Goes to the look that is so many ns from the one that is shown.
    fn scroll(&mut self, ns: i64) {
        let from = self.paused.unwrap_or(self.looks.len().saturating_sub(1));
        let Some(at) = self.looks.get(from).and_then(|now| now.at_ns) else {
            return;
        };
        let wanted = at.saturating_add(ns);
        let is_before = |now: &&Now| now.at_ns.is_none_or(|at| at <= wanted);
        let next = self
            .looks
            .iter()
            .take_while(is_before)
            .count()
            .saturating_sub(1);
        let moved = if ns < 0 {
            next.min(from.saturating_sub(1))
        } else {
            next.max(from + 1)
        };
        self.paused = (moved + 1 < self.looks.len()).then_some(moved);
    }
}

/// Means of so many equal parts, the newest last. Fewer values fill only the end.
fn spread(values: &[Option<f64>], cells: usize) -> Vec<Option<f64>> {
    let cells = cells.max(1);
    let each = values.len().div_ceil(cells).max(1);
    let mut means: Vec<Option<f64>> = values
        .rchunks(each)
        .map(|part| {
            let known: Vec<f64> = part.iter().flatten().copied().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
        .take(cells)
        .collect();
    means.resize(cells, None);
    means.reverse();
    means
}
