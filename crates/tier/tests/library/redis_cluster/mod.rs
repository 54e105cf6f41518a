//! A cache before a real Redis Cluster, in good times and bad.

mod faults;
mod healthy;
mod loading;
mod set_up;
mod zones;
