//! Products of matrices, as Muon's iteration has them, alternating with OpenBLAS's sgemm. Prints
//! for each size and number of threads how many operations a second both do in the best of all
//! turns, and the ratio: above 1 Umbo is faster. `BLAS` names another library with the same
//! functions.

use std::env;
use std::ffi::{CString, c_char, c_int, c_void};
use std::time::Instant;

use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::matrix::product::{Matrix, Product, Products};

/// Rows and columns of a matrix, whose product with its transposed one is computed, and the product
/// of that with the matrix.
const SIZES: [(usize, usize); 3] = [(256, 256), (1024, 1024), (1024, 4096)];
const TURNS: usize = 25;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;
const ROW_MAJOR: c_int = 101;
const AS_IT_IS: c_int = 111;
const TRANSPOSED: c_int = 112;

#[rustfmt::skip]
type Sgemm = unsafe extern "C" fn(
    c_int, c_int, c_int, c_int, c_int, c_int, f32, *const f32, c_int, *const f32, c_int, f32,
    *mut f32, c_int,
);
type SetThreads = unsafe extern "C" fn(c_int);

/// A BLAS that was found.
struct Blas {
    sgemm: Sgemm,
    set_threads: SetThreads,
}

impl Blas {
    fn load() -> Option<Blas> {
        let name = env::var("BLAS").unwrap_or_else(|_| "libopenblas.so.0".into());
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a zero, and the library's constructors are its own affair.
        let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let find = |name: &str| {
            [name.to_owned(), format!("scipy_{name}")]
                .into_iter()
                .map(|name| {
                    let name = CString::new(name).unwrap_or_default();
                    // SAFETY: the library is there, and the name ends with a zero.
                    unsafe { dlsym(library, name.as_ptr()) }
                })
                .find(|function| !function.is_null())
        };
        let sgemm = find("cblas_sgemm")?;
        let set_threads = find("openblas_set_num_threads")?;
        // SAFETY: functions of these names have these types.
        Some(unsafe {
            Blas {
                sgemm: std::mem::transmute::<*mut c_void, Sgemm>(sgemm),
                set_threads: std::mem::transmute::<*mut c_void, SetThreads>(set_threads),
            }
        })
    }

    /// `left` × `right`, or × the transposed one, with rows one behind the other.
    fn write(&self, product: &Operands<'_>, to: &mut [f32]) {
        let [rows, columns, depth] = product.sizes.map(|size| size as c_int);
        let (form, step) = match product.is_transposed {
            true => (TRANSPOSED, depth),
            false => (AS_IT_IS, columns),
        };
        // SAFETY: the matrices have these sizes.
        unsafe {
            (self.sgemm)(
                ROW_MAJOR,
                AS_IT_IS,
                form,
                rows,
                columns,
                depth,
                1.0,
                product.left.as_ptr(),
                depth,
                product.right.as_ptr(),
                step,
                0.0,
                to.as_mut_ptr(),
                columns,
            );
        }
    }
}

/// One product: its rows, columns and inner dimension.
struct Operands<'a> {
    sizes: [usize; 3],
    left: &'a [f32],
    right: &'a [f32],
    is_transposed: bool,
}

impl Operands<'_> {
    fn write(&self, products: &mut Products, to: &mut [f32]) {
        let [rows, columns, depth] = self.sizes;
        let right = match self.is_transposed {
            true => Matrix::new(self.right, columns, depth).transposed(),
            false => Matrix::new(self.right, depth, columns),
        };
        let product = Product {
            left: Matrix::new(self.left, rows, depth),
            right,
            factor: 1.0,
            base: None,
        };
        products.write(Instructions::chosen(), &product, to);
    }
}

fn seconds(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

fn compare(blas: &Blas, threads: usize, operands: &Operands<'_>) {
    let [rows, columns, depth] = operands.sizes;
    let mut products = Products::default();
    products.reserve().expect("there is memory for a product");
    let mut ours = vec![0.0; rows * columns];
    let mut theirs = ours.clone();
    let mut best = [f64::INFINITY; 2];
    // A turn of the smallest takes a while, too.
    let calls = (1 << 28) / (rows * columns * depth) + 1;
    for _ in 0..TURNS {
        let turns = [
            seconds(|| (0..calls).for_each(|_| operands.write(&mut products, &mut ours))),
            seconds(|| (0..calls).for_each(|_| blas.write(operands, &mut theirs))),
        ];
        for (best, seconds) in best.iter_mut().zip(turns) {
            *best = best.min(seconds / calls as f64);
        }
    }
    let far = ours
        .iter()
        .zip(&theirs)
        .map(|(ours, theirs)| (ours - theirs).abs())
        .fold(0.0, f32::max);
    assert!(far < 1e-2, "they differ by {far}");
    let operations = 2.0 * (rows * columns * depth) as f64;
    let [ours, theirs] = best.map(|seconds| operations / seconds / 1e9);
    let form = ["", " transposed"][usize::from(operands.is_transposed)];
    println!(
        "{threads} threads, {rows} × {depth} by {depth} × {columns}{form}: {ours:.1} of Umbo, \
         {theirs:.1} of OpenBLAS (10^9 operations a second), ratio {:.2}",
        ours / theirs
    );
}

fn main() {
    let Some(blas) = Blas::load() else {
        return println!("skipped: there is no libopenblas.so.0; BLAS may name another");
    };
    for threads in [1, 2] {
        workers::set_count(threads).expect("the number of threads is valid");
        // SAFETY: the function takes any number from 1 on.
        unsafe { (blas.set_threads)(threads as c_int) };
        for (rows, columns) in SIZES {
            let number = |at: usize| (at * 7919 % 2003) as f32 / 2003.0 - 0.5;
            let matrix: Vec<f32> = (0..rows * columns).map(number).collect();
            let square: Vec<f32> = (0..rows * rows).map(number).collect();
            let of_rows = Operands {
                sizes: [rows, rows, columns],
                left: &matrix,
                right: &matrix,
                is_transposed: true,
            };
            let of_square = Operands {
                sizes: [rows, columns, rows],
                left: &square,
                right: &matrix,
                is_transposed: false,
            };
            compare(&blas, threads, &of_rows);
            compare(&blas, threads, &of_square);
        }
    }
}
