//! Floating-point numbers of 16 bits.

/// What a format of 16 bits is made of.
#[derive(Clone, Copy)]
pub struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// What devices give for a result that is no number.
    nan: u16,
}

pub const HALF: Format = Format { exponent_bits: 5, mantissa_bits: 10, nan: 0x7fff };
pub const BFLOAT: Format = Format { exponent_bits: 8, mantissa_bits: 7, nan: 0x7fff };

/// How a value between two numbers is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The number of a format, exactly.
    pub fn widen(self, bits: u16) -> f64 {
        let fraction = f64::from(bits & ((1 << self.mantissa_bits) - 1));
        let exponent = i32::from(bits & 0x7fff) >> self.mantissa_bits;
        let one = f64::from(1u32 << self.mantissa_bits);
        let value = if exponent == (1 << self.exponent_bits) - 1 {
            if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
        } else if exponent == 0 {
            fraction / one * power(1 - self.bias())
        } else {
            (1.0 + fraction / one) * power(exponent - self.bias())
        };
        if bits & 0x8000 != 0 { -value } else { value }
    }

    /// The nearest number of the format, ties to even, or the next one towards zero.
    pub fn narrow(self, value: f64, rounding: Rounding) -> u16 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let bits = value.to_bits() & !(1 << 63);
        let infinity = (((1u32 << self.exponent_bits) - 1) << self.mantissa_bits) as u16;
        if value.is_infinite() {
            return sign | infinity;
        }
        let exponent = (bits >> 52) as i32 - 1023;
        // Numbers below the normal ones have all the same exponent.
        let least = 1 - self.bias();
        let drop = 52 - self.mantissa_bits as i32 + (least - exponent).max(0);
        let significand = bits & ((1 << 52) - 1) | u64::from(bits >> 52 != 0) << 52;
        let (kept, rest, half) = if drop > 54 {
            (0, significand, u64::MAX)
        } else {
            let rest = significand & ((1 << drop) - 1);
            (significand >> drop, rest, 1 << (drop - 1))
        };
        let up = match rounding {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            Rounding::Zero => false,
            Rounding::Down => sign != 0 && rest != 0,
            Rounding::Up => sign == 0 && rest != 0,
        };
        // The carry of rounding goes into the exponent by itself.
        let base = ((exponent.max(least) - least) as u64) << self.mantissa_bits;
        let magnitude = base + kept + u64::from(up);
        if magnitude >= u64::from(infinity) {
            let towards_zero = match rounding {
                Rounding::Nearest => false,
                Rounding::Zero => true,
                Rounding::Down => sign == 0,
                Rounding::Up => sign != 0,
            };
            return sign | if towards_zero { infinity - 1 } else { infinity };
        }
        sign | magnitude as u16
    }
}

/// A power of two that is a normal number.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for format in [HALF, BFLOAT] {
            for bits in 0..=u16::MAX {
                let value = format.widen(bits);
                let back = format.narrow(value, Rounding::Nearest);
                assert!(back == bits || value.is_nan() && back == format.nan, "{bits:#x}");
                assert!(value.is_nan() || format.narrow(value, Rounding::Zero) == bits);
            }
        }
    }

    #[test]
    fn between_two_numbers_the_nearest_wins() {
        for format in [HALF, BFLOAT] {
            let infinity = format.narrow(f64::INFINITY, Rounding::Nearest);
            for bits in 0..infinity - 1 {
                let (low, high) = (format.widen(bits), format.widen(bits + 1));
                let middle = low + (high - low) / 2.0;
                let even = if bits & 1 == 0 { bits } else { bits + 1 };
                assert_eq!(format.narrow(middle, Rounding::Nearest), even);
                assert_eq!(format.narrow(middle.next_up(), Rounding::Nearest), bits + 1);
                assert_eq!(format.narrow(middle.next_down(), Rounding::Nearest), bits);
                assert_eq!(format.narrow(high.next_down(), Rounding::Zero), bits);
                assert_eq!(format.narrow(low.next_up(), Rounding::Up), bits + 1);
                assert_eq!(format.narrow(-high.next_down(), Rounding::Down), (bits + 1) | 0x8000);
            }
        }
    }
}
