//! Rows with columns of equal width.

use std::fmt::Write as _;

/// The widest column, in characters: a cell that is wider, as one may be that a host reports, makes no other row as long, and what is
/// formatted cannot be padded to more than 65,535.
const WIDEST: usize = 200;

/// One line a row, indented.
pub fn table<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> Vec<String> {
    let rows: Vec<[String; N]> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(WIDEST);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:width$} ");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_reports_without_an_end_makes_no_other_row_as_long() {
        let rows = [["a".to_owned(), "b".to_owned()], ["x".repeat(100_000), "y".to_owned()]];
        let lines = table(rows.into_iter());
        assert_eq!(lines[0].chars().count(), 2 + WIDEST + 2 + 1);
        assert!(lines[0].ends_with(" b") && lines[1].ends_with("x  y"), "nothing is left out");
    }
}
