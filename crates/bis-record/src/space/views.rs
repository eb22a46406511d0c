//! Where an address space shows files that may change (*views*; `../views.rs` says what they are for).

use bis_trace::types::{Addr, FileId};

use super::mapped::Key;

/// A range of a domain's address space that shows a file. What replay has there need not be of one piece:
/// there is one view for each, so that each can be moved by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    pub start: Addr,
    pub end: Addr,
    pub key: Key,
    /// The file's byte at `start`.
    pub offset: u64,
    /// The file's length as far as the domain's events tell it, bytes. In replay, the pages up to there can
    /// be accessed, and no others.
    pub len: u64,
    /// The content of the file when it was mapped, and the length of that, bytes.
    pub kept: FileId,
    pub kept_len: u64,
    /// Has the file changed since it was kept?
    pub changed: bool,
}

impl View {
    /// The part that lies in these addresses.
    pub fn part(&self, start: Addr, end: Addr) -> Option<View> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        (start < end).then(|| View { start, end, offset: self.offset + (start - self.start), ..*self })
    }

    /// The addresses that show these bytes of the file.
    pub fn addresses(&self, start: u64, end: u64) -> Option<(Addr, Addr)> {
        let to_addr =
            |offset: u64| self.start.saturating_add(offset.saturating_sub(self.offset)).min(self.end);
        let (start, end) = (to_addr(start), to_addr(end));
        (start < end).then_some((start, end))
    }
}

/// Makes two views of each that has one of these addresses inside.
pub fn split(views: &mut Vec<View>, at: [Addr; 2]) {
    for at in at {
        if let Some(view) = views.iter_mut().find(|view| view.start < at && at < view.end) {
            let upper = view.part(at, Addr::MAX);
            view.end = at;
            views.extend(upper);
        }
    }
}

/// All views of an address space, which do not overlap.
#[derive(Clone, Debug, Default)]
pub struct FileViews {
    views: Vec<View>,
}

impl FileViews {
    pub fn iter(&self) -> impl Iterator<Item = &View> {
        self.views.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Is anything of this range a view?
    pub fn overlaps(&self, start: Addr, end: Addr) -> bool {
        self.views.iter().any(|view| view.start < end && start < view.end)
    }

    /// Is there a view of this file?
    pub fn has(&self, key: Key) -> bool {
        self.views.iter().any(|view| view.key == key)
    }

    /// The parts of views that lie in these addresses.
    pub fn parts(&self, start: Addr, end: Addr) -> Vec<View> {
        self.views.iter().filter_map(|view| view.part(start, end)).collect()
    }

    pub fn add(&mut self, views: impl IntoIterator<Item = View>) {
        self.views.extend(views);
    }

    /// Takes `start..end` out of the views; returns the pieces that are gone.
    pub fn cut(&mut self, start: Addr, end: Addr) -> Vec<View> {
        let before = std::mem::take(&mut self.views);
        for view in &before {
            self.views.extend(view.part(Addr::NULL, start));
            self.views.extend(view.part(end, Addr::MAX));
        }
        before.iter().filter_map(|view| view.part(start, end)).collect()
    }

    /// Takes out the views of which this is so: to be added again as what they are then.
    pub fn take(&mut self, is_wanted: impl Fn(&View) -> bool) -> Vec<View> {
        let (taken, others) = std::mem::take(&mut self.views).into_iter().partition(is_wanted);
        self.views = others;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View {
        start: Addr(0x5000),
        end: Addr(0x8000),
        key: (1, 2),
        offset: 0x1000,
        len: 0x9000,
        kept: FileId(1),
        kept_len: 0x9000,
        changed: false,
    };

    #[test]
    fn bytes_of_the_file_are_found_where_they_are_shown() {
        assert_eq!(VIEW.addresses(0x1010, 0x1020), Some((Addr(0x5010), Addr(0x5020))));
        assert_eq!(VIEW.addresses(0, u64::MAX), Some((VIEW.start, VIEW.end)));
        assert_eq!(VIEW.addresses(0, 0x1000), None);
        assert_eq!(VIEW.addresses(0x4000, 0x5000), None);
    }

    #[test]
    fn a_hole_leaves_both_sides_with_their_offsets() {
        let mut views = FileViews { views: vec![VIEW] };
        let gone = views.cut(Addr(0x6000), Addr(0x7000));
        assert_eq!(gone, [View { start: Addr(0x6000), end: Addr(0x7000), offset: 0x2000, ..VIEW }]);
        assert_eq!(
            views.views,
            [View { end: Addr(0x6000), ..VIEW }, View { start: Addr(0x7000), offset: 0x3000, ..VIEW }]
        );
    }

    #[test]
    fn a_split_changes_nothing_but_the_pieces() {
        let mut views = vec![VIEW];
        split(&mut views, [Addr(0x6000), Addr(0x8000)]);
        assert_eq!(
            views,
            [View { end: Addr(0x6000), ..VIEW }, View { start: Addr(0x6000), offset: 0x2000, ..VIEW }]
        );
    }

    #[test]
    fn what_is_taken_out_is_there_no_more() {
        let other = View { key: (3, 4), start: Addr(0x9000), end: Addr(0xa000), ..VIEW };
        let mut views = FileViews::default();
        views.add([VIEW, other]);
        assert_eq!(views.take(|view| view.key == VIEW.key), [VIEW]);
        assert!(!views.has(VIEW.key) && views.has(other.key));
        assert!(!views.overlaps(Addr(0x5000), Addr(0x9000)) && views.overlaps(Addr(0x9fff), Addr(0xb000)));
        assert_eq!(
            views.parts(Addr(0x9800), Addr(0xb000)),
            [View { start: Addr(0x9800), offset: 0x1800, ..other }]
        );
    }
}
