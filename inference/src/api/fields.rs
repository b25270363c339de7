//! What does a JSON object hold, and which field is wrong when it is?
//!
//! Each getter gives the field, None when it is absent or null, or an error that carries the field's path.

use serde_json::{Map, Value};

use super::error::ApiError;

/// A JSON object that is read field by field and knows where it stands in the request.
pub(super) struct Fields<'j> {
    map: &'j Map<String, Value>,
    pub within: String,
}

impl<'j> Fields<'j> {
    pub fn of(json: &'j Value, within: String) -> Result<Self, ApiError> {
        match json {
            Value::Object(map) => Ok(Self { map, within }),
            other => Err(wrong_type(within, "an object", other)),
        }
    }

    pub fn path(&self, name: &str) -> String {
        if self.within.is_empty() { name.to_owned() } else { format!("{}.{name}", self.within) }
    }

    pub fn get(&self, name: &str) -> Option<&'j Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub fn string(&self, name: &str) -> Result<Option<&'j str>, ApiError> {
        self.typed(name, "a string", Value::as_str)
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    pub fn array(&self, name: &str) -> Result<Option<&'j [Value]>, ApiError> {
        self.typed(name, "an array", |value| value.as_array().map(Vec::as_slice))
    }

    pub fn object(&self, name: &str) -> Result<Option<Fields<'j>>, ApiError> {
        self.get(name).map(|value| Fields::of(value, self.path(name))).transpose()
    }

    pub fn number(&self, name: &str, min: f64, max: f64) -> Result<Option<f64>, ApiError> {
        let number = self.typed(name, "a number", Value::as_f64)?;
        self.within_range(name, number, min, max)
    }

    pub fn integer(&self, name: &str, min: i64, max: i64) -> Result<Option<i64>, ApiError> {
        let number = self.typed(name, "an integer", Value::as_i64)?;
        self.within_range(name, number, min, max)
    }

    fn within_range<T: PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        number: Option<T>,
        min: T,
        max: T,
    ) -> Result<Option<T>, ApiError> {
        match number {
            Some(number) if number < min => Err(self.refuse(name, "invalid_value", format!("the least is {min}"))),
            Some(number) if number > max => Err(self.refuse(name, "invalid_value", format!("the most is {max}"))),
            number => Ok(number),
        }
    }

    fn typed<T>(&self, name: &str, wanted: &str, read: impl Fn(&'j Value) -> Option<T>) -> Result<Option<T>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.wrong_type(name, wanted, value)),
        }
    }

    pub fn refuse(&self, name: &str, code: &'static str, message: impl AsRef<str>) -> ApiError {
        let path = self.path(name);
        let message = format!("invalid '{path}': {}", message.as_ref());
        ApiError::invalid(path, code, message)
    }

    pub fn missing(&self, name: &str) -> ApiError {
        let path = self.path(name);
        let message = format!("missing required parameter: '{path}'");
        ApiError::invalid(path, "missing_required_parameter", message)
    }

    pub fn wrong_type(&self, name: &str, wanted: &str, found: &Value) -> ApiError {
        wrong_type(self.path(name), wanted, found)
    }
}

pub(super) fn wrong_type(path: String, wanted: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let message = format!("invalid type for '{path}': expected {wanted}, but got {found}");
    ApiError::invalid(path, "invalid_type", message)
}
