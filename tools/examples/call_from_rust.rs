//! The first call, from Rust: what it needs of fla/c_api.h, and a safe function around it.
//!
//!     rustc --edition 2021 call_from_rust.rs -L <prefix>/lib -C link-arg=-Wl,-rpath,<prefix>/lib
use std::ffi::{c_char, c_void, CStr};

// DLPack's structs.
#[repr(C)]
struct DLDevice {
    device_type: i32, // 1: CPU
    device_id: i32,
}
#[repr(C)]
struct DLDataType {
    code: u8, // 2: float
    bits: u8,
    lanes: u16,
}
#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64, // null: row-major
    byte_offset: u64,
}
#[repr(C)]
struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: unsafe extern "C" fn(*mut DLManagedTensor),
}

// Those of fla/c_api.h.
#[repr(C)]
union FlaValue {
    tensor: *const DLTensor,
    number: f64,
    integer: i64,
    flag: i64,
}
#[repr(C)]
struct FlaArgument {
    name: *const c_char,
    kind: i32, // 1: a tensor, 2: a number, 3: an integer, 4: a flag
    value: FlaValue,
}
#[repr(C)]
struct FlaResult {
    name: *const c_char,
    tensor: *mut DLManagedTensor,
}

#[link(name = "fla")]
extern "C" {
    fn fla_call(
        function: *const c_char,
        arguments: *const FlaArgument,
        argument_count: usize,
        results: *mut FlaResult,
        result_count: usize,
        options: *const c_void,
    ) -> i32;
    fn fla_last_error() -> *const c_char;
    fn fla_version() -> *const c_char;
}

/// Numbers of f32, row-major.
struct Tensor {
    numbers: Vec<f32>,
    shape: Vec<i64>,
}

impl Tensor {
    fn waves(shape: &[i64], scale: f32, offset: f32) -> Tensor {
        let count = shape.iter().product::<i64>();
        let numbers = (0..count)
            .map(|i| offset + scale * (i as f32).sin())
            .collect();
        Tensor {
            numbers,
            shape: shape.to_vec(),
        }
    }

    /// What C sees of it, for as long as it lives.
    fn view(&self) -> DLTensor {
        DLTensor {
            data: self.numbers.as_ptr() as *mut c_void,
            device: DLDevice {
                device_type: 1,
                device_id: 0,
            },
            ndim: self.shape.len() as i32,
            dtype: DLDataType {
                code: 2,
                bits: 32,
                lanes: 1,
            },
            shape: self.shape.as_ptr() as *mut i64,
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        }
    }

    /// A copy of a result, which is given back.
    unsafe fn taken(result: *mut DLManagedTensor) -> Tensor {
        let tensor = &(*result).dl_tensor;
        let shape = std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize).to_vec();
        let count = shape.iter().product::<i64>() as usize;
        let numbers = std::slice::from_raw_parts(tensor.data as *const f32, count).to_vec();
        ((*result).deleter)(result);
        Tensor { numbers, shape }
    }
}

/// kda.chunk_kda with normalized keys: o and the final state, or what is wrong with the call.
fn chunk_kda(tensors: &[(&CStr, &Tensor)]) -> Result<[Tensor; 2], String> {
    let views: Vec<DLTensor> = tensors.iter().map(|(_, tensor)| tensor.view()).collect();
    let mut arguments: Vec<FlaArgument> = (tensors.iter().zip(&views))
        .map(|((name, _), view)| FlaArgument {
            name: name.as_ptr(),
            kind: 1,
            value: FlaValue { tensor: view },
        })
        .collect();
    arguments.push(FlaArgument {
        name: c"use_qk_l2norm_in_kernel".as_ptr(),
        kind: 4,
        value: FlaValue { flag: 1 },
    });
    let mut results = [c"out", c"final_state"].map(|name| FlaResult {
        name: name.as_ptr(),
        tensor: std::ptr::null_mut(),
    });
    unsafe {
        let code = fla_call(
            c"kda.chunk_kda".as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
            results.as_mut_ptr(),
            results.len(),
            std::ptr::null(),
        );
        match code {
            0 => Ok(results.map(|result| Tensor::taken(result.tensor))),
            _ => Err(format!(
                "code {code}: {}",
                CStr::from_ptr(fla_last_error()).to_string_lossy()
            )),
        }
    }
}

fn main() {
    let of_tokens = |scale, offset| Tensor::waves(&[1, 100, 4, 64], scale, offset);
    let (q, k, v) = (
        of_tokens(1.0, 0.0),
        of_tokens(1.0, 0.1),
        of_tokens(1.0, 0.0),
    );
    let (g, beta) = (of_tokens(0.1, -0.2), Tensor::waves(&[1, 100, 4], 0.3, 0.5));
    let mut call = [
        (c"q", &q),
        (c"k", &k),
        (c"v", &v),
        (c"g", &g),
        (c"beta", &beta),
    ];

    println!(
        "fla {}",
        unsafe { CStr::from_ptr(fla_version()) }.to_string_lossy()
    );
    let [o, state] = chunk_kda(&call).expect("a right call");
    for (name, tensor) in [("out", o), ("final_state", state)] {
        let sizes: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
        let last = tensor.numbers.last().unwrap();
        println!("{name}: {}, ends with {last:.4}", sizes.join(" x "));
    }

    call[1].1 = &beta; // a k with too few dimensions
    if let Err(wrong) = chunk_kda(&call) {
        println!("{wrong}");
    }
}
