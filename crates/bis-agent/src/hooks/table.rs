//! The hooks' table of calls, made from the table of system calls.

use bis_syscalls::{HookMakes, HookPiece, HookShape, HookWait, Size, hook, rows};

use super::{CALLS, Piece, PieceKind, Row, flag};

/// The piece as the hooks know it; none where they do not.
fn piece(from: HookPiece) -> Option<Piece> {
    let HookPiece { arg, size, reads } = from;
    let (kind, of, size) = match (size, reads) {
        (Size::Fixed(n), false) => (PieceKind::OutFixed, 0, n),
        (Size::Fixed(n), true) => (PieceKind::InoutFixed, 0, n),
        (Size::Arg(of, n), false) => (PieceKind::OutArg, of, n),
        (Size::Arg32(of, n), false) => (PieceKind::OutArg32, of, n),
        (Size::Arg32(of, n), true) => (PieceKind::InoutArg32, of, n),
        // What the kernel skips between the bytes that it writes is nothing.
        (Size::Ret(of, n), _) => (PieceKind::OutRet, of, n),
        (Size::Ret32(of, n), _) => (PieceKind::OutRet32, of, n),
        (Size::Deref(of), _) => (PieceKind::OutDeref, of, 1),
        (Size::Arg(..), true) => return None,
    };
    Some(Piece { arg, kind, of, size: u16::try_from(size).ok()? })
}

fn row(from: &bis_syscalls::Row) -> Option<Row> {
    let hook = hook(from)?;
    let mut row = Row { flags: flag::HOOKED, ..Row::default() };
    (row.shape, row.flags_arg) = (hook.rule.shape, hook.rule.flags);
    row.flags |= match hook.rule.waits {
        None => 0,
        Some(HookWait::Input) => flag::WAITS_IN,
        Some(HookWait::Output) => flag::WAITS_OUT,
        Some(HookWait::Blocking) => flag::ASKS,
        Some(HookWait::Turn) => flag::GIVES_WAY,
    };
    row.flags |= match hook.rule.makes {
        None => 0,
        Some(HookMakes::Harmless) => flag::MAKES_FD,
        Some(HookMakes::Two) => flag::MAKES_TWO,
        Some(HookMakes::Copy) => flag::COPIES_FD,
    };
    row.flags |= match hook.rule.path {
        Some(0) => flag::TAKES_PATH0,
        Some(_) => flag::TAKES_PATH1,
        None => 0,
    };
    row.flags |= match hook.rule.clears {
        Some(0) => flag::CLEARS_FD0,
        Some(_) => flag::CLEARS_FD1,
        None => 0,
    };
    if hook.rule.writes {
        row.flags |= flag::WRITES_FD;
    }
    if hook.rule.aligned {
        row.flags |= flag::ALIGNED;
    }
    for (from, place) in hook.pieces.iter().zip(&mut row.piece) {
        *place = piece(*from)?;
        row.pieces += 1;
    }
    let by_length = |piece: &Piece| {
        piece.kind == PieceKind::OutFixed || (piece.kind, piece.size) == (PieceKind::OutRet, 1)
    };
    let plain =
        row.flags & !(flag::HOOKED | flag::WAITS_IN | flag::ALIGNED) == 0 && row.shape == HookShape::Plain;
    if plain && row.pieces <= 1 && hook.pieces.iter().all(|_| by_length(&row.piece[0])) {
        row.flags |= flag::QUICK;
    }
    (usize::from(row.pieces) == hook.pieces.len()).then_some(row)
}

/// The table; calls that are not in it are traced.
pub fn table() -> [Row; CALLS] {
    let mut table = [Row::default(); CALLS];
    for from in rows() {
        // The last row stands for all numbers beyond.
        let place = usize::try_from(from.nr).ok().filter(|nr| *nr < CALLS - 1);
        if let (Some(row), Some(place)) = (row(from), place.and_then(|nr| table.get_mut(nr))) {
            *place = row;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_rows_say() {
        let table = table();
        let read = table[0];
        assert_eq!(read.flags, flag::HOOKED | flag::WAITS_IN | flag::ALIGNED | flag::QUICK);
        assert_eq!(read.piece[0], Piece { arg: 1, kind: PieceKind::OutRet, of: 2, size: 1 });
        let accept4 = table[288];
        assert_eq!((accept4.pieces, accept4.piece[0].kind), (2, PieceKind::OutDeref));
        assert_eq!((table[9].flags, table[9].shape), (flag::HOOKED, HookShape::Memory));
        assert_eq!(table[25], Row::default());
        assert_eq!(table[CALLS - 1], Row::default());
    }
}
