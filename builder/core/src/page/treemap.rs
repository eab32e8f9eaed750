//! A squarified treemap (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000): areas in proportion to values, as close to
//! squares as they get. Pure.

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The rectangles of values that are sorted, largest first; together they fill `room`. A value of 0 has no area.
pub fn squarify(values: &[u64], room: Rect) -> Vec<Rect> {
    let total: f64 = values.iter().map(|value| *value as f64).sum();
    if total <= 0.0 || room.width <= 0.0 || room.height <= 0.0 {
        return vec![Rect { width: 0.0, height: 0.0, ..room }; values.len()];
    }
    let scale = room.width * room.height / total;
    let mut areas = values.iter().map(|value| *value as f64 * scale).peekable();
    let (mut all, mut room) = (Vec::with_capacity(values.len()), room);
    let mut row: Vec<f64> = Vec::new();
    while let Some(area) = areas.next() {
        row.push(area);
        let side = room.width.min(room.height);
        let better = areas.peek().is_some_and(|next| {
            let longer: Vec<f64> = row.iter().copied().chain(std::iter::once(*next)).collect();
            worst(&longer, side) <= worst(&row, side)
        });
        if !better {
            room = place(&row, room, &mut all);
            row.clear();
        }
    }
    all
}

/// The worst ratio of sides in a row along `side`.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let ratio = |area: &f64| {
        let (a, b) = (side * side * area / (sum * sum), sum * sum / (side * side * area));
        a.max(b)
    };
    row.iter().map(ratio).fold(0.0, f64::max)
}

/// Puts a row along the shorter side; what is left of the room.
fn place(row: &[f64], room: Rect, all: &mut Vec<Rect>) -> Rect {
    let sum: f64 = row.iter().sum();
    let upright = room.width >= room.height;
    let side = if upright { room.height } else { room.width };
    let depth = if side > 0.0 { sum / side } else { 0.0 };
    let mut at = 0.0;
    for area in row {
        let length = if depth > 0.0 { area / depth } else { 0.0 };
        all.push(match upright {
            true => Rect { x: room.x, y: room.y + at, width: depth, height: length },
            false => Rect { x: room.x + at, y: room.y, width: length, height: depth },
        });
        at += length;
    }
    match upright {
        true => Rect { x: room.x + depth, width: (room.width - depth).max(0.0), ..room },
        false => Rect { y: room.y + depth, height: (room.height - depth).max(0.0), ..room },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Rect = Rect { x: 0.0, y: 0.0, width: 600.0, height: 400.0 };

    #[test]
    fn the_example_of_the_paper_has_the_rectangles_of_the_paper() {
        let all = squarify(&[6, 6, 4, 3, 2, 2, 1], Rect { x: 0.0, y: 0.0, width: 6.0, height: 4.0 });
        assert_eq!(all[0], Rect { x: 0.0, y: 0.0, width: 3.0, height: 2.0 });
        assert_eq!(all[1], Rect { x: 0.0, y: 2.0, width: 3.0, height: 2.0 });
        assert!((all[2].width - 12.0 / 7.0).abs() < 1e-9 && (all[2].height - 7.0 / 3.0).abs() < 1e-9, "{:?}", all[2]);
    }

    #[test]
    fn areas_are_in_proportion_and_stay_inside() {
        let values = [900, 500, 499, 100, 7, 7, 1, 0];
        let total: u64 = values.iter().sum();
        let all = squarify(&values, ROOM);
        for (value, rect) in values.iter().zip(&all) {
            let wanted = *value as f64 / total as f64 * 240_000.0;
            assert!((rect.width * rect.height - wanted).abs() < 1e-6, "{value}: {rect:?}");
            assert!(rect.x >= 0.0 && rect.x + rect.width <= 600.0 + 1e-6, "{rect:?}");
            assert!(rect.y >= 0.0 && rect.y + rect.height <= 400.0 + 1e-6, "{rect:?}");
        }
    }

    #[test]
    fn no_value_and_values_of_nothing_are_no_area() {
        assert_eq!(squarify(&[], ROOM), []);
        assert!(squarify(&[0, 0], ROOM).iter().all(|rect| rect.width * rect.height == 0.0));
        assert_eq!(squarify(&[u64::MAX, u64::MAX], ROOM).len(), 2);
    }
}
