//! Places of which the session knows that they are in front of the event that comes next behind their own.
//!
//! A place is named by an event and a way from there, and on the way other events may come: the name does not
//! tell. But a replica does the same each time. Where one has stood at a place, and the last event that it
//! had done was the place's own, no event comes before that place, ever. A replica that goes there looks for
//! no event on the way: not for a pause either, which in a loop is looked for in each round, and stands in
//! the way of what counts the rounds.

use std::collections::VecDeque;

use bis_trace::types::EventSeq;

use super::{
    live::Live,
    place::{Leg, Position},
};

/// How many such places are remembered.
const PLACES_MAX: usize = 256;

/// How many pauses are remembered.
const PAUSES_MAX: usize = 64;

/// See the module's text. The latest come last.
#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    places: VecDeque<Position>,
    /// Pauses, with their places; none: one that was looked for in vain.
    pauses: VecDeque<(EventSeq, Option<Position>)>,
}

impl Inner {
    /// A replica stands at this place.
    pub(super) fn note_place(&mut self, live: &Live<'_>, position: &Position) {
        if live.replica.done().0 == position.event {
            self.add(position);
        }
    }

    /// These are names of the same place, from the same event on.
    pub(super) fn same(&mut self, known: &Position, name: &Position) {
        if known != name && known.event == name.event && self.has(known) {
            self.add(name);
        }
    }

    /// The place of this event, a pause. None within: it was looked for in vain; none without: not yet.
    pub(super) fn pause(&self, pause: EventSeq) -> Option<Option<&Position>> {
        self.pauses.iter().find(|(known, _)| *known == pause).map(|(_, place)| place.as_ref())
    }

    /// This is the place of an event, a pause; or it was looked for in vain.
    pub(super) fn note_pause(&mut self, pause: EventSeq, place: Option<Position>) {
        if self.pauses.len() == PAUSES_MAX {
            self.pauses.pop_front();
        }
        self.pauses.push_back((pause, place));
    }

    /// Is this place one of those, or on the way to one, behind the same event?
    pub(super) fn has(&self, position: &Position) -> bool {
        let leads_on = |known: &Position| known.event == position.event && known.done_at(position).is_some();
        self.places.iter().any(leads_on)
    }

    fn add(&mut self, position: &Position) {
        let is_plain = |leg: &Leg| matches!(leg, Leg::Arrive { .. } | Leg::Trigger { .. } | Leg::Step { .. });
        if position.legs.is_empty() || !position.legs.iter().all(is_plain) || self.has(position) {
            return;
        }
        if self.places.len() == PLACES_MAX {
            self.places.pop_front();
        }
        tracing::debug!(%position, "no event comes before it");
        self.places.push_back(position.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Position {
        text.parse().unwrap()
    }

    #[test]
    fn another_name_of_a_known_place_is_known_from_the_same_event_on() {
        let mut inner = Inner::default();
        inner.same(&at("5+0x10#9"), &at("5+0x20#1"));
        assert!(inner.places.is_empty());
        inner.add(&at("5+0x10#9"));
        inner.same(&at("5+0x10#9"), &at("5+0x20#1"));
        inner.same(&at("5+0x10#9"), &at("4+0x20#7"));
        assert_eq!(inner.places, [at("5+0x10#9"), at("5+0x20#1")]);
    }

    #[test]
    fn what_is_on_the_way_to_a_known_place_is_known() {
        let mut inner = Inner::default();
        inner.add(&at("5+0x10#9+0x20#4"));
        for earlier in ["5+0x10#9+0x20#4", "5+0x10#9+0x20#3", "5+0x10#9", "5+0x10#8", "5"] {
            assert!(inner.has(&at(earlier)), "{earlier}");
        }
        for other in ["5+0x10#9+0x20#5", "5+0x10#10", "5+0x20#1", "4+0x10#9", "4", "6"] {
            assert!(!inner.has(&at(other)), "{other}");
        }
    }

    #[test]
    fn an_events_own_place_is_not_in_front_of_it() {
        let mut inner = Inner::default();
        for event in ["5", "5+before:6", "5+0x10#1-3i"] {
            inner.add(&at(event));
        }
        assert!(inner.places.is_empty());
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut inner = Inner::default();
        for n in 1..=PLACES_MAX + 1 {
            inner.add(&at(&format!("5+0x10#{n}")));
        }
        assert_eq!((inner.places.len(), &inner.places[0]), (PLACES_MAX, &at("5+0x10#2")));
    }
}
