// What the modules that need torch include of it, precompiled once: these headers cost more than our code.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
