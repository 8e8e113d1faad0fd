"""Reduced models, with one layer of each kind, for trying layouts."""
