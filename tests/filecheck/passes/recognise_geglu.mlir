// RUN: dpuc opt --passes recognise-geglu %s | filecheck %s

// CHECK-LABEL: func.func @geglu
// CHECK:       dpu.t.linear %x, %w geglu : tensor<2x3x8xf32>, tensor<8x32xf32> -> tensor<2x3x16xf32>
// CHECK-NEXT:  func.return
func.func @geglu(%x: tensor<2x3x8xf32>, %w: tensor<8x32xf32>) -> tensor<2x3x16xf32> {
  %h = dpu.t.linear %x, %w : tensor<2x3x8xf32>, tensor<8x32xf32> -> tensor<2x3x32xf32>
  %v, %g = dpu.t.split %h axis 2 : tensor<2x3x32xf32> -> tensor<2x3x16xf32>, tensor<2x3x16xf32>
  %a = dpu.t.gelu %g : tensor<2x3x16xf32> -> tensor<2x3x16xf32>
  %y = dpu.t.mul %v, %a : tensor<2x3x16xf32>, tensor<2x3x16xf32> -> tensor<2x3x16xf32>
  func.return %y : tensor<2x3x16xf32>
}

// Fused q, k, v: one linear each.
// CHECK-LABEL: func.func @qkv
// CHECK:       dpu.param "m::w" via ["cols:0:8"] : tensor<8x8xf32>
// CHECK:       dpu.param "m::w" via ["cols:8:24"] : tensor<8x16xf32>
// CHECK-NOT:   dpu.t.split
func.func @qkv(%x: tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x16xf32>) {
  %w = dpu.param "m::w" : tensor<8x24xf32>
  %h = dpu.t.linear %x, %w : tensor<2x3x8xf32>, tensor<8x24xf32> -> tensor<2x3x24xf32>
  %q, %k = dpu.t.split %h axis 2 : tensor<2x3x24xf32> -> tensor<2x3x8xf32>, tensor<2x3x16xf32>
  func.return %q, %k : tensor<2x3x8xf32>, tensor<2x3x16xf32>
}

// The gate comes first: that is not GEGLU's order.
// CHECK-LABEL: func.func @gate_first
// CHECK:       dpu.t.gelu
// CHECK:       dpu.t.mul
func.func @gate_first(%x: tensor<2x3x8xf32>, %w: tensor<8x32xf32>) -> tensor<2x3x16xf32> {
  %h = dpu.t.linear %x, %w : tensor<2x3x8xf32>, tensor<8x32xf32> -> tensor<2x3x32xf32>
  %g, %v = dpu.t.split %h axis 2 : tensor<2x3x32xf32> -> tensor<2x3x16xf32>, tensor<2x3x16xf32>
  %a = dpu.t.gelu %g : tensor<2x3x16xf32> -> tensor<2x3x16xf32>
  %y = dpu.t.mul %v, %a : tensor<2x3x16xf32>, tensor<2x3x16xf32> -> tensor<2x3x16xf32>
  func.return %y : tensor<2x3x16xf32>
}

// Biases may follow the split.
// CHECK-LABEL: func.func @bias_behind
// CHECK:       [[K:%.*]] = dpu.t.linear %x, {{%.*}} : tensor<2x3x8xf32>, tensor<8x4xf32>
// CHECK:       [[Q:%.*]] = dpu.t.linear %x, {{%.*}} bias {{%.*}} : tensor<4xf32>
// CHECK:       func.return [[Q]], [[K]]
func.func @bias_behind(%x: tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %w = dpu.param "m::w" : tensor<8x8xf32>
  %b = dpu.param "m::b" : tensor<4xf32>
  %h = dpu.t.linear %x, %w : tensor<2x3x8xf32>, tensor<8x8xf32> -> tensor<2x3x8xf32>
  %p, %k = dpu.t.split %h axis 2 : tensor<2x3x8xf32> -> tensor<2x3x4xf32>, tensor<2x3x4xf32>
  %q = dpu.t.add %b, %p : tensor<4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  func.return %q, %k : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
