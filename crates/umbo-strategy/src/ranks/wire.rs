//! Encoding of numbers and tensors for messages between ranks: little-endian, aligned to 8 bytes.

use umbo_base::error::{Error, Result, Status};
use umbo_device::DeviceId;
use umbo_tensor::values::Value;
use umbo_tensor::values::indexed_slices::IndexedSlices;
use umbo_tensor::{DType, MAX_RANK, Shape, Tensor};

/// Encodes a message.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// A number.
    pub fn number(&mut self, number: u64) -> Result<()> {
        self.bytes(&number.to_le_bytes())
    }

    /// A number, with all its bits.
    pub fn float(&mut self, number: f64) -> Result<()> {
        self.number(number.to_bits())
    }

    /// Bytes, padded with zeros to a multiple of 8.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.reserve(bytes.len())?;
        self.0.extend_from_slice(bytes);
        self.0.resize(end, 0);
        Ok(())
    }

    /// A text with its length.
    pub fn text(&mut self, text: &str) -> Result<()> {
        self.number(text.len() as u64)?;
        self.bytes(text.as_bytes())
    }

    /// Reserves memory for this many bytes; returns the padded end.
    fn reserve(&mut self, bytes: usize) -> Result<usize> {
        let end = (self.0.len() + bytes).next_multiple_of(8);
        let missing = end - self.0.len();
        self.0
            .try_reserve(missing)
            .map_err(|_| Error::no_bytes(bytes, "of memory to send to other ranks"))?;
        Ok(end)
    }

    /// A tensor: type, shape and elements.
    pub fn tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let shape = tensor.shape();
        self.number(tensor.dtype() as u64)?;
        self.number(shape.rank() as u64)?;
        shape
            .iter()
            .try_for_each(|&size| self.number(size as u64))?;
        let bytes = shape.bytes(tensor.dtype())?;
        let end = self.reserve(bytes)?;
        let start = self.0.len();
        self.0.resize(end, 0);
        tensor.copy_to_host(&mut self.0[start..start + bytes])
    }

    /// A component of a per-replica value.
    pub fn component(&mut self, component: &Value) -> Result<()> {
        match component {
            Value::IndexedSlices(slices) => {
                self.number(1)?;
                self.tensor(slices.values())?;
                self.tensor(slices.indices())?;
                let shape = slices.dense_shape();
                self.number(shape.rank() as u64)?;
                shape.iter().try_for_each(|&size| self.number(size as u64))
            }
            other => {
                self.number(0)?;
                self.tensor(other.tensor_of(0)?)
            }
        }
    }

    /// The message.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes a message.
pub struct Reader<'a> {
    rest: &'a [u8],
    rank: usize,
}

impl<'a> Reader<'a> {
    /// The message of rank `rank`.
    pub fn new(rank: usize, bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, rank }
    }

    /// The error for bytes that are not a valid message.
    pub fn damaged(&self) -> Error {
        let rank = self.rank;
        let message = format!("what rank {rank} has sent is damaged; nothing of it is used");
        Error::Rank {
            rank: Some(rank),
            status: Status::DataLoss,
            message,
        }
    }

    /// The number that [`Writer::number`] wrote.
    pub fn number(&mut self) -> Result<u64> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().map_err(|_| self.damaged())?,
        ))
    }

    /// A count of items, each of which takes at least one byte.
    pub fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| self.damaged())?;
        if count > self.rest.len() {
            Err(self.damaged())
        } else {
            Ok(count)
        }
    }

    /// The number that [`Writer::float`] wrote.
    pub fn float(&mut self) -> Result<f64> {
        self.number().map(f64::from_bits)
    }

    /// `count` bytes that [`Writer::bytes`] wrote.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let padded = count
            .checked_next_multiple_of(8)
            .filter(|&end| end <= self.rest.len());
        let (bytes, rest) = self.rest.split_at(padded.ok_or_else(|| self.damaged())?);
        self.rest = rest;
        Ok(&bytes[..count])
    }

    /// The text that [`Writer::text`] wrote.
    pub fn text(&mut self) -> Result<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| self.damaged())
    }

    fn shape(&mut self) -> Result<Shape> {
        let rank = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if rank > MAX_RANK {
            return Err(self.damaged());
        }
        let mut sizes = [0; MAX_RANK];
        for size in &mut sizes[..rank] {
            *size = usize::try_from(self.number()?).map_err(|_| self.damaged())?;
        }
        Shape::new(&sizes[..rank]).map_err(|_| self.damaged())
    }

    /// The tensor that [`Writer::tensor`] wrote, in host memory.
    pub fn tensor(&mut self) -> Result<Tensor> {
        let code = self.number()?;
        let dtype = DType::ALL.into_iter().find(|dtype| *dtype as u64 == code);
        let dtype = dtype.ok_or_else(|| self.damaged())?;
        let shape = self.shape()?;
        let bytes = shape.bytes(dtype).map_err(|_| self.damaged())?;
        Tensor::from_bytes(dtype, shape, self.bytes(bytes)?, DeviceId::HOST)
    }

    /// The component that [`Writer::component`] wrote, in host memory.
    pub fn component(&mut self) -> Result<Value> {
        match self.number()? {
            0 => self.tensor().map(Value::Tensor),
            1 => {
                let values = self.tensor()?;
                let indices = self.tensor()?;
                let shape = self.shape()?;
                let slices = IndexedSlices::new(values, indices, shape);
                let slices = slices.map_err(|error| match error.status() {
                    Status::ResourceExhausted => error,
                    _ => self.damaged(),
                });
                slices.map(|slices| Value::IndexedSlices(slices.into()))
            }
            _ => Err(self.damaged()),
        }
    }
}
