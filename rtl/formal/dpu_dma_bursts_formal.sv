// Proof of dpu_dma_bursts: bursts stay in their page and in the region that the checker found, in the given order, and end.
// The job is any that dpu_dma_check lets through (proved there): counts and run not zero, both ends inside the region.
// `rest_q[k]` is togo[k] times stride[k], kept without a multiplication; what follows from the product is assumed of it.
// The region itself is shown for small jobs (`Region`), with real products.

module dpu_dma_bursts_formal
  import dpu_dma_pkg::*;
#(
  parameter int unsigned AddressW = 64,  // the region ends at 2^AddressW or before
  parameter bit Region = 1'b0  // small jobs, proved to stay in their region
) (
  input logic        clk_i,
  input logic        job_valid_i,
  input runs_t       job_i,
  input logic        ready_i,
  input logic [63:0] base_i,   // the job's region, [base, end)
  input logic [64:0] end_i,
  input logic [2:0][49:0] span_i  // (n - 1) d of the job
);

  logic                   rst_ni, job_ready, valid, none, counted, last;
  dpu_isa_pkg::error_e    code;
  slot_t                  slot;
  logic [63:0]            address;
  logic [BurstBytesW-1:0] bytes;

  dpu_formal_reset u_reset (.clk_i, .rst_no(rst_ni));
  // Jobs for the region: up to 3 runs a dimension, strides to 15, runs to 15 bytes, about a page's end.
  runs_t job;
  always_comb begin
    job = job_i;
    if (Region) begin
      job.address = 64'({1'b1, job_i.address[12:0]});
      job.run     = 48'(job_i.run[3:0]);
      for (int unsigned k = 0; k < 3; k++) begin
        job.n[k] = 16'(job_i.n[k][1:0]);
        job.d[k] = {{28{job_i.d[k][31]}}, job_i.d[k][3:0]};
      end
    end
  end

  dpu_dma_bursts dut (
    .*, .job_i(job), .job_ready_o(job_ready), .valid_o(valid), .none_o(none), .code_o(code), .slot_o(slot), .counted_o(counted),
    .address_o(address), .bytes_o(bytes), .last_o(last)
  );

  // Elements of a packed array have no sign, so products are kept in arrays of their own.
  typedef logic signed [49:0] product_t;
  product_t span_given [3], span_q [3], rest_q [3], rest_d [3];
  for (genvar k = 0; k < 3; k++) begin : gen_span
    if (Region) assign span_given[k] = 50'($signed({1'b0, job.n[k][1:0] - 2'd1}) * $signed(job.d[k][4:0]));
    else assign span_given[k] = $signed(span_i[k]);
  end

  logic load, take;
  assign load = job_valid_i & job_ready;
  assign take = valid & ready_i;

  // Positive and negative part of a span; ends of what the job touches, relative to its address.
  function automatic logic signed [52:0] up(input logic signed [49:0] x);
    return x > 0 ? 53'(x) : '0;
  endfunction
  function automatic logic signed [52:0] down(input logic signed [49:0] x);
    return x < 0 ? 53'(x) : '0;
  endfunction
  logic signed [66:0] low_given, high_given;
  assign low_given  = 67'($signed({3'b0, job.address})) + 67'(down(span_given[0])) + 67'(down(span_given[1])) +
                      67'(down(span_given[2]));
  assign high_given = 67'($signed({3'b0, job.address})) + 67'(up(span_given[0])) + 67'(up(span_given[1])) +
                      67'(up(span_given[2])) + 67'($signed({1'b0, job.run}));

  // The products, and the region, of the job inside.
  logic signed [66:0]      base_q, end_q;
  logic                    wait_q, go_q, none_q, last_q, code_any_q;
  logic [63:0]             address_q;
  logic [BurstBytesW-1:0]  bytes_q;
  dpu_isa_pkg::error_e     code_q;
  slot_t                   slot_q;
  logic [95:0]             rank, rank_q;  // runs and bytes to go, in the order of the loops
  assign rank = {dut.togo_q, dut.left_q};

  function automatic logic signed [49:0] step(input logic signed [49:0] x, input logic signed [31:0] d);
    return x - 50'(d);
  endfunction
  always_comb begin
    for (int unsigned k = 0; k < 3; k++) rest_d[k] = rest_q[k];
    if (take && !last && dut.run_done) begin
      rest_d[0] = dut.dim_done[0] ? span_q[0] : step(rest_q[0], dut.job_q.d[0]);
      if (dut.dim_done[0]) rest_d[1] = dut.dim_done[1] ? span_q[1] : step(rest_q[1], dut.job_q.d[1]);
      if (dut.dim_done[0] && dut.dim_done[1]) rest_d[2] = step(rest_q[2], dut.job_q.d[2]);
    end
  end
  always_ff @(posedge clk_i) begin
    for (int unsigned k = 0; k < 3; k++) begin
      rest_q[k] <= load ? span_given[k] : rest_d[k];
      if (load) span_q[k] <= span_given[k];
    end
    if (load) begin
      base_q <= 67'($signed({3'b0, base_i}));
      end_q  <= 67'($signed({2'b0, end_i}));
    end
    {none_q, last_q, address_q, bytes_q, code_q, slot_q} <= {none, last, address, bytes, code, slot};
    rank_q <= rank;
  end
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {wait_q, go_q} <= '0;
    else begin
      wait_q <= valid & ~ready_i;
      go_q   <= take & ~last;
    end
  end

  // Facts about k d, for k = togo and d = stride: of the sign of d, at least |d| where k > 0, zero where k = 0.
  function automatic logic product(input logic [15:0] k, input logic signed [31:0] d, input logic signed [49:0] kd);
    if (k == '0 || d == '0) return kd == '0;
    if (d > 0) return kd >= 50'(d) && kd < 50'sh0_8000_0000_0000 && (k != 16'd1 || kd == 50'(d));
    return kd <= 50'(d) && kd >= -50'sh0_8000_0000_0000 && (k != 16'd1 || kd == 50'(d));
  endfunction

  logic signed [66:0] at;  // as a number without wrap-around
  assign at = 67'($signed({3'b0, dut.at_q}));
  logic active;
  assign active = valid & ~none;

  // One job, never held up: that a burst waits unchanged is proved below.
  logic given_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) given_q <= 1'b0;
    else         given_q <= 1'b1;
  end
  if (Region) begin : gen_region
    always_comb if (rst_ni) assume (ready_i && job_valid_i == !given_q &&
        (job.none || !job_valid_i || (67'($signed({3'b0, base_i})) == low_given && 67'($signed({2'b0, end_i})) == high_given)));
    // All of it lies below 2^15, so 16 bits tell whether an address is inside, and keep the solver from 64-bit carries.
    logic [15:0] low16_q, high16_q;
    always_ff @(posedge clk_i) if (load) {low16_q, high16_q} <= {low_given[15:0], high_given[15:0]};
    always_comb if (rst_ni) InRegion: assert (!active || (address[15:0] >= low16_q && address[15:0] + 16'(bytes) <= high16_q));
  end

  always_comb begin
    if (rst_ni) begin
      if (job_valid_i && !job.none) begin
        assume (job.run != '0 && job.n[0] != '0 && job.n[1] != '0 && job.n[2] != '0);
        assume (low_given >= 67'($signed({3'b0, base_i})) && high_given <= 67'($signed({2'b0, end_i})));
        assume (end_i <= (65'd1 << AddressW));
        if (!Region) assume (product(job.n[0] - 16'd1, job.d[0], span_given[0]) && product(job.n[1] - 16'd1, job.d[1], span_given[1]) &&
                product(job.n[2] - 16'd1, job.d[2], span_given[2]));
      end
      if (active && !Region) begin
        assume (product(dut.togo_q[0], dut.job_q.d[0], rest_q[0]) && product(dut.togo_q[1], dut.job_q.d[1], rest_q[1]) &&
                product(dut.togo_q[2], dut.job_q.d[2], rest_q[2]));
        assume (product(dut.job_q.n[0] - 16'd1, dut.job_q.d[0], span_q[0]) &&
                product(dut.job_q.n[1] - 16'd1, dut.job_q.d[1], span_q[1]) &&
                product(dut.job_q.n[2] - 16'd1, dut.job_q.d[2], span_q[2]));
        // rest is a part of span
        for (int unsigned k = 0; k < 3; k++) assume (span_q[k] >= 0 ? rest_q[k] <= span_q[k] : rest_q[k] >= span_q[k]);
      end

      NotEmpty: assert (Region || !active || (bytes != '0 && 49'(bytes) <= 49'(dut.left_q)));
      InPage: assert (Region || !active || 14'(address[11:0]) + 14'(bytes) <= 14'd4096);
      Beats: assert (Region || !active || (14'(address[5:0]) + 14'(bytes) - 14'd1) >> 6 < 14'd64);
      StaysUp: assert (Region || !wait_q || (valid && none == none_q && last == last_q && address == address_q &&
                                   bytes == bytes_q && code == code_q && slot == slot_q));
      Ranking: assert (Region || !go_q || (valid && rank < rank_q));
      LastIsLast: assert (Region || !active || last == (dut.run_done && dut.togo_q == '0));
      MarkIsOne: assert (Region || !(valid && none) || last);
      // for induction
      Counts: assert (Region || !active || (dut.left_q != '0 && dut.left_q <= dut.job_q.run && dut.job_q.run != '0));
      Counted: assert (Region || !active || (dut.togo_q[0] < dut.job_q.n[0] && dut.togo_q[1] < dut.job_q.n[1] &&
                                   dut.togo_q[2] < dut.job_q.n[2]));
      CoverCut: cover (Region || active && take && bytes == 13'd4096 && dut.job_q.run > 48'd8192);
      CoverBackwards: cover (active && last && take && rank_q != rank && dut.job_q.d[0][31] && dut.job_q.n[0] == 16'd3 &&
                             dut.job_q.n[1] == 16'd1 && dut.job_q.n[2] == 16'd1);
      CoverThree: cover (active && last && take && dut.job_q.n[0] == 16'd2 && dut.job_q.n[1] == 16'd2 &&
                         dut.job_q.n[2] == 16'd2 && dut.job_q.d[1][31] && !dut.job_q.d[2][31] && dut.job_q.d[2] != '0);
      CoverWholeRegion: cover (active && at == base_q && at + 67'($signed({1'b0, bytes})) == end_q);
      CoverMark: cover (Region || valid && none && code != dpu_isa_pkg::ErrorNone && wait_q);
      CoverTop: cover (Region || active && end_q == (67'sd1 <<< AddressW) && last && !dut.run_done == 1'b0 &&
                       at + 67'($signed({1'b0, bytes})) == end_q);
    end
  end

endmodule
