//! Medians and spreads of a few numbers.

/// The middle of the values, or the mean of the two in the middle; none of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The least and the greatest of the values; none of none.
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let greatest = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, greatest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn spreads() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[2.0, 5.0, 1.5]), Some((1.5, 5.0)));
    }
}
