//! Points in a unit cube that fill it evenly: Latin hypercubes and Sobol sequences.
//!
//! Sobol: Bratley and Fox, ACM TOMS 14 (1988), algorithm 659, in the Gray code order of Antonov and
//! Saleev, with the direction numbers of Joe and Kuo, SIAM J. Sci. Comput. 30 (2008),
//! `new-joe-kuo-6`. A seed shifts all points by one exclusive-or for each dimension, which keeps
//! every interval's share.

use hitm_base::Random;
use thiserror::Error;

/// Limit on the dimensions of a Sobol sequence, and on the ranges that a plan may list.
pub(crate) const DIMENSIONS_MAX: usize = 10;
/// Limit on the dimensions of a Latin hypercube: more than there are numbers to vary.
const HYPERCUBE_DIMENSIONS_MAX: usize = 256;
/// Bits of a coordinate.
const BITS: usize = 32;

/// Method of choosing points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Each dimension in as many intervals as there are points, one point in each.
    LatinHypercube,
    /// A low-discrepancy sequence: a longer one keeps the earlier points.
    Sobol,
}

/// More dimensions than a sample can have.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("at most {0} dimensions")]
pub(crate) struct TooManyDimensions(usize);

/// Most dimensions of a method.
pub(crate) fn dimensions_max(method: Method) -> usize {
    match method {
        Method::LatinHypercube => HYPERCUBE_DIMENSIONS_MAX,
        Method::Sobol => DIMENSIONS_MAX,
    }
}

/// `count` points of `dimensions` coordinates, each 0 to below 1.
pub(crate) fn points(
    method: Method,
    count: usize,
    dimensions: usize,
    seed: u64,
) -> Result<Vec<Vec<f64>>, TooManyDimensions> {
    let most = dimensions_max(method);
    if dimensions > most {
        return Err(TooManyDimensions(most));
    }
    Ok(match method {
        Method::LatinHypercube => latin_hypercube(count, dimensions, seed),
        Method::Sobol => sobol(count, dimensions, seed),
    })
}

fn latin_hypercube(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut points = vec![Vec::with_capacity(dimensions); count];
    for dimension in 0..dimensions {
        let mut random = stream(seed, dimension);
        let mut intervals: Vec<usize> = (0..count).collect();
        // Fisher and Yates.
        for last in (1..count).rev() {
            intervals.swap(last, random.below(last as u64 + 1) as usize);
        }
        for (point, interval) in points.iter_mut().zip(intervals) {
            point.push((interval as f64 + random.unit()) / count as f64);
        }
    }
    points
}

/// Degree, coefficients and first direction numbers of each dimension from the second on.
const DIRECTIONS: [(usize, u32, &[u32]); DIMENSIONS_MAX - 1] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
    (5, 2, &[1, 1, 5, 5, 17]),
    (5, 4, &[1, 1, 5, 5, 5]),
    (5, 7, &[1, 1, 7, 11, 19]),
];

fn directions(dimension: usize) -> [u32; BITS] {
    let mut out = [0; BITS];
    let Some((degree, coefficients, first)) = dimension.checked_sub(1).map(|n| DIRECTIONS[n])
    else {
        // The first dimension is van der Corput's sequence.
        for (bit, direction) in out.iter_mut().enumerate() {
            *direction = 1 << (BITS - 1 - bit);
        }
        return out;
    };
    for bit in 0..BITS {
        out[bit] = match first.get(bit) {
            Some(number) => number << (BITS - 1 - bit),
            None => {
                let mut direction = out[bit - degree] ^ (out[bit - degree] >> degree);
                for step in 1..degree {
                    if coefficients >> (degree - 1 - step) & 1 == 1 {
                        direction ^= out[bit - step];
                    }
                }
                direction
            }
        };
    }
    out
}

fn sobol(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut points = vec![Vec::with_capacity(dimensions); count];
    for dimension in 0..dimensions {
        let directions = directions(dimension);
        let shift = match seed {
            0 => 0,
            seed => stream(seed, dimension).next() as u32,
        };
        let mut coordinate = 0u32;
        for (number, point) in points.iter_mut().enumerate() {
            if number > 0 {
                coordinate ^= directions[(number as u64).trailing_zeros() as usize];
            }
            point.push(f64::from(coordinate ^ shift) / 4_294_967_296.0);
        }
    }
    points
}

/// A stream for each dimension, so that one more dimension changes no other.
fn stream(seed: u64, dimension: usize) -> Random {
    let first = Random::new(seed).next();
    Random::new(first ^ (dimension as u64).wrapping_mul(0xa076_1d64_78bd_642f))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that each of `count` equal intervals of each dimension has one point.
    fn assert_even(points: &[Vec<f64>]) {
        let count = points.len();
        for dimension in 0..points[0].len() {
            let of_dimension = points.iter().map(|point| point[dimension]);
            let mut intervals: Vec<usize> = of_dimension
                .map(|part| (part * count as f64) as usize)
                .collect();
            intervals.sort_unstable();
            assert_eq!(intervals, (0..count).collect::<Vec<_>>(), "{dimension}");
        }
    }

    #[test]
    fn every_interval_of_every_dimension_has_one_point() {
        for seed in [0, 1, 7] {
            for method in [Method::Sobol, Method::LatinHypercube] {
                assert_even(&points(method, 256, DIMENSIONS_MAX, seed).unwrap());
            }
        }
        assert_even(&points(Method::LatinHypercube, 100, 3, 5).unwrap());
    }

    /// Dimensions 1 and 2 are a (0, 2)-sequence: each cell of 16 by 16 has one of 256 points.
    #[test]
    fn two_dimensions_of_sobol_fill_squares() {
        let points = points(Method::Sobol, 256, 2, 3).unwrap();
        let cell = |part: f64| (part * 16.0) as usize;
        let mut cells: Vec<(usize, usize)> =
            points.iter().map(|p| (cell(p[0]), cell(p[1]))).collect();
        cells.sort_unstable();
        cells.dedup();
        assert_eq!(cells.len(), 256);
    }

    /// The first points of the sequence, as published with the direction numbers.
    #[test]
    fn sobol_begins_as_published() {
        let points = points(Method::Sobol, 4, 3, 0).unwrap();
        let expected = [
            [0.0, 0.0, 0.0],
            [0.5, 0.5, 0.5],
            [0.75, 0.25, 0.25],
            [0.25, 0.75, 0.75],
        ];
        assert_eq!(points, expected);
    }

    #[test]
    fn more_points_of_sobol_keep_the_first_ones() {
        let few = points(Method::Sobol, 10, 4, 2).unwrap();
        let many = points(Method::Sobol, 100, 4, 2).unwrap();
        assert_eq!(few, many[..10]);
        assert_ne!(few, points(Method::Sobol, 10, 4, 3).unwrap());
        let many = points(Method::Sobol, 1, DIMENSIONS_MAX + 1, 0);
        assert_eq!(many, Err(TooManyDimensions(DIMENSIONS_MAX)));
    }
}
