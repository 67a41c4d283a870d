// Walks the cells of checked words: one step a cycle, a step is one scratchpad word (PARAM: up to 16 scalars).
// Order: words of a cell, then dimension 1, 2, 3; a step tells its bytes of the cell and whether they are data.
// INT4 has a further step before each block, for its group integers; TABLE counts chunks of 16 bytes.

module dpu_dma_walk
  import dpu_dma_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned ParamStep = 8  // scalars a step
) (
  input  logic  clk_i,
  input  logic  rst_ni,

  input  logic  job_valid_i,
  output logic  job_ready_o,
  input  walk_t job_i,

  output logic  valid_o,
  input  logic  ready_i,
  output step_t step_o
);

  import dpu_isa_pkg::*;

  // Waiver: the corner-turn's shape is not the walker's.
  /* verilator lint_off UNUSEDSIGNAL */
  walk_t                 job_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic                  valid_q;
  logic [15:0]           at_q;             // the word
  logic [15:0]           cell_q, row_q, plane_q;
  logic [31:0]           left_q;           // bytes of the cell
  logic [2:0][16:0]      i_q;              // the cell
  logic [7:0]            block_q;          // int4: rows left of the block, 0: its group integers come next

  logic [StepBytesW-1:0] unit, bytes;
  logic                  group, cell_done, take, load;
  logic [2:0]            dim_done;
  logic [1:0]            inside_dim;
  logic [15:0]           cell_d, row_d, plane_d;

  // Bytes of a step.
  function automatic logic [StepBytesW-1:0] step_bytes(
    input kind_e kind, input buffer_e buffer, input logic is_group
  );
    case (kind)
      KindInt4:  return is_group ? StepBytesW'(Cols) : StepBytesW'(Cols / 2);
      KindTable: return StepBytesW'(16);
      default: begin
        case (buffer)
          BufferVbuf:  return StepBytesW'(2 * Cols);
          BufferParam: return StepBytesW'(4 * ParamStep);
          default:     return StepBytesW'(Cols);
        endcase
      end
    endcase
  endfunction

  assign group     = job_q.kind == KindInt4 && block_q == '0 && !job_q.empty;
  assign unit      = step_bytes(job_q.kind, job_q.buffer, group);
  assign cell_done = left_q <= 32'(unit);
  assign bytes     = cell_done ? left_q[StepBytesW-1:0] : unit;
  assign take      = valid_q & ready_i;
  assign load      = job_valid_i & job_ready_o;

  for (genvar k = 0; k < 3; k++) begin : gen_dims
    assign dim_done[k] = i_q[k] + 17'd1 == job_q.cells[k];
  end
  for (genvar k = 0; k < 2; k++) begin : gen_inside
    assign inside_dim[k] = i_q[k] >= 17'(job_q.pad_before[k]) && i_q[k] < 17'(job_q.pad_before[k]) + 17'(job_q.n[k]);
  end

  always_comb begin
    step_o = '{
      slot: job_q.slot, code: job_q.code, empty: job_q.empty, kind: job_q.kind, buffer: job_q.buffer,
      fill: job_q.fill, table_slot: job_q.table_slot, addr: at_q, bytes: bytes, data: 1'b0, group: group,
      last: job_q.empty | (cell_done & (&dim_done))
    };
    case (job_q.kind)
      KindInt4:  step_o.data = 1'b1;
      KindTable: step_o.data = ~cell_done;
      KindRaw:   step_o.data = &inside_dim;
      default:   step_o.data = 1'b0;
    endcase
    if (job_q.empty) step_o.data = 1'b0;
  end

  assign valid_o     = valid_q;
  assign job_ready_o = ~valid_q | (ready_i & step_o.last);

  always_comb begin
    cell_d  = cell_q + job_q.s[0];
    row_d   = row_q;
    plane_d = plane_q;
    if (dim_done[0]) begin
      row_d = row_q + job_q.s[1];
      if (dim_done[1]) begin
        plane_d = plane_q + job_q.s[2];
        row_d   = plane_d;
      end
      cell_d = row_d;
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni)   valid_q <= 1'b0;
    else if (load) valid_q <= 1'b1;
    else if (take && step_o.last) valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (load) begin
      job_q   <= job_i;
      at_q    <= job_i.sram;
      cell_q  <= job_i.sram;
      row_q   <= job_i.sram;
      plane_q <= job_i.sram;
      left_q  <= job_i.inner;
      i_q     <= '0;
      block_q <= '0;
    end else if (take) begin
      if (!cell_done) begin
        left_q <= left_q - 32'(unit);
        if (!group) at_q <= at_q + (job_q.buffer == BufferParam ? 16'(ParamStep) : 16'd1);
        block_q <= group ? 8'(Int4Group) : block_q - 8'd1;
      end else begin
        left_q  <= job_q.inner;
        block_q <= '0;
        at_q    <= cell_d;
        cell_q  <= cell_d;
        row_q   <= row_d;
        plane_q <= plane_d;
        i_q[0]  <= dim_done[0] ? '0 : i_q[0] + 17'd1;
        if (dim_done[0]) i_q[1] <= dim_done[1] ? '0 : i_q[1] + 17'd1;
        if (dim_done[0] && dim_done[1]) i_q[2] <= i_q[2] + 17'd1;
      end
    end
  end

endmodule
