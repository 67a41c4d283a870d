// RUN: dpuc opt --passes recognise-norm,merge-duplicates %s | filecheck %s

// CHECK-LABEL: func.func @group_norm
// CHECK-DAG:   [[G:%.*]] = dpu.param "m::gamma" : tensor<8xf32>
// CHECK-DAG:   [[B:%.*]] = dpu.param "m::beta" : tensor<8xf32>
// CHECK:       dpu.t.group_norm %x, [[G]], [[B]] groups 4 eps 1.000000e-05
// CHECK-NOT:   dpu.t.instance_norm
func.func @group_norm(%x: tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32> {
  %one = dpu.t.constant dense<1.0> : tensor<4xf32>
  %zero = dpu.t.constant dense<0.0> : tensor<4xf32>
  %g1 = dpu.param "m::gamma" : tensor<8xf32>
  %b1 = dpu.param "m::beta" : tensor<8xf32>
  %g = dpu.t.reshape %g1 : tensor<8xf32> -> tensor<8x1x1xf32>
  %b = dpu.t.reshape %b1 : tensor<8xf32> -> tensor<8x1x1xf32>
  %r = dpu.t.reshape %x : tensor<2x8x4x4xf32> -> tensor<2x4x32xf32>
  %n = dpu.t.instance_norm %r, %one, %zero eps 1.0e-05 : tensor<2x4x32xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x32xf32>
  %s = dpu.t.reshape %n : tensor<2x4x32xf32> -> tensor<2x8x4x4xf32>
  %m = dpu.t.mul %s, %g : tensor<2x8x4x4xf32>, tensor<8x1x1xf32> -> tensor<2x8x4x4xf32>
  %y = dpu.t.add %m, %b : tensor<2x8x4x4xf32>, tensor<8x1x1xf32> -> tensor<2x8x4x4xf32>
  func.return %y : tensor<2x8x4x4xf32>
}

// An instance norm with a scale of its own is not GroupNorm's.
// CHECK-LABEL: func.func @scaled_inside
// CHECK:       dpu.t.instance_norm
func.func @scaled_inside(%x: tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32> {
  %two = dpu.t.constant dense<2.0> : tensor<4xf32>
  %zero = dpu.t.constant dense<0.0> : tensor<4xf32>
  %g = dpu.param "m::gamma" : tensor<8x1x1xf32>
  %b = dpu.param "m::beta" : tensor<8x1x1xf32>
  %r = dpu.t.reshape %x : tensor<2x8x4x4xf32> -> tensor<2x4x32xf32>
  %n = dpu.t.instance_norm %r, %two, %zero eps 1.0e-05 : tensor<2x4x32xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x32xf32>
  %s = dpu.t.reshape %n : tensor<2x4x32xf32> -> tensor<2x8x4x4xf32>
  %m = dpu.t.mul %s, %g : tensor<2x8x4x4xf32>, tensor<8x1x1xf32> -> tensor<2x8x4x4xf32>
  %y = dpu.t.add %m, %b : tensor<2x8x4x4xf32>, tensor<8x1x1xf32> -> tensor<2x8x4x4xf32>
  func.return %y : tensor<2x8x4x4xf32>
}
