// Walks the runs of checked words and cuts them into AXI bursts: whole beats, at most 64, never across 4 KiB.
// One burst a cycle; dimension 1 is the fastest. A word without DRAM access gives one mark (`none_o`) instead.
// An illegal word gives a mark with its code; whoever reads it must not go on behind it.

module dpu_dma_bursts
  import dpu_dma_pkg::*;
(
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic                   job_valid_i,
  output logic                   job_ready_o,
  input  runs_t                  job_i,

  output logic                   valid_o,
  input  logic                   ready_i,
  output logic                   none_o,
  output dpu_isa_pkg::error_e    code_o,
  output slot_t                  slot_o,
  output logic                   counted_o,
  output logic [63:0]            address_o,  // of the first byte, not of the beat
  output logic [BurstBytesW-1:0] bytes_o,
  output logic                   last_o      // of the word
);

  // Waiver: the address is only loaded from the job.
  /* verilator lint_off UNUSEDSIGNAL */
  runs_t            job_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic             valid_q;
  logic [63:0]      at_q;              // the burst
  logic [63:0]      run_q, row_q, plane_q;  // the run, and the first runs of its row and plane
  logic [47:0]      left_q;            // bytes of the run
  logic [2:0][15:0] togo_q;            // runs behind this one, a dimension

  logic [BurstBytesW-1:0] room, bytes;
  logic                   run_done, take, load;
  logic [2:0]             dim_done;
  logic [63:0]            run_d, row_d, plane_d;

  assign room     = BurstBytesW'(13'h1000) - {1'b0, at_q[11:0]};
  assign run_done = left_q <= 48'(room);
  assign bytes    = run_done ? left_q[BurstBytesW-1:0] : room;
  assign take     = valid_q & ready_i;
  assign load     = job_valid_i & job_ready_o;

  for (genvar i = 0; i < 3; i++) begin : gen_dims
    assign dim_done[i] = togo_q[i] == '0;
  end

  assign none_o      = job_q.none;
  assign code_o      = job_q.code;
  assign slot_o      = job_q.slot;
  assign counted_o   = job_q.counted;
  assign valid_o     = valid_q;
  assign address_o   = at_q;
  assign bytes_o     = bytes;
  assign last_o      = job_q.none | (run_done & (&dim_done));
  assign job_ready_o = ~valid_q | (ready_i & last_o);

  function automatic logic [63:0] stride(input logic [31:0] d);
    return {{32{d[31]}}, d};
  endfunction

  always_comb begin
    run_d   = run_q + stride(job_q.d[0]);
    row_d   = row_q;
    plane_d = plane_q;
    if (dim_done[0]) begin
      row_d = row_q + stride(job_q.d[1]);
      if (dim_done[1]) begin
        plane_d = plane_q + stride(job_q.d[2]);
        row_d   = plane_d;
      end
      run_d = row_d;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)   valid_q <= 1'b0;
    else if (load) valid_q <= 1'b1;
    else if (take && last_o) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (load) begin
      job_q   <= job_i;
      at_q    <= job_i.address;
      run_q   <= job_i.address;
      row_q   <= job_i.address;
      plane_q <= job_i.address;
      left_q  <= job_i.run;
      for (int unsigned i = 0; i < 3; i++) togo_q[i] <= job_i.n[i] - 16'd1;
    end else if (take) begin
      if (!run_done) begin
        at_q   <= at_q + 64'(room);
        left_q <= left_q - 48'(room);
      end else begin
        at_q    <= run_d;
        run_q   <= run_d;
        row_q   <= row_d;
        plane_q <= plane_d;
        left_q  <= job_q.run;
        togo_q[0] <= dim_done[0] ? job_q.n[0] - 16'd1 : togo_q[0] - 16'd1;
        if (dim_done[0]) togo_q[1] <= dim_done[1] ? job_q.n[1] - 16'd1 : togo_q[1] - 16'd1;
        if (dim_done[0] && dim_done[1]) togo_q[2] <= togo_q[2] - 16'd1;
      end
    end
  end

endmodule
